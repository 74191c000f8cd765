"""What all figures have in common."""

from matplotlib.figure import Figure

from ctlpp.figures.style import style


def assert_inside(figure: Figure) -> None:
    """Nothing reaches over the edge."""
    with style():
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -0.02
