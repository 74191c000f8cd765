"""Parts of pages that are made from the program when the site is built, so that they cannot be out of date.

In a page, `<!-- generated: NAME -->` stands for what the function `NAME` gives back, in Markdown.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import ctlpp

DOCS = Path(__file__).parent
PLACE = re.compile(r"^<!-- generated: (\w+)(?: (.*))? -->$", re.MULTILINE)
HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
REPRODUCTION = "reproduction.md"  # written by `make results`; its sections are pages of the site
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def fill(text: str, page: str) -> str:
    """A page with its generated parts. page: its path within docs/, without the ending."""
    return PLACE.sub(lambda place: globals()[place[1]](*filter(None, [place[2]]), page=page), text)


def contents(names: str, page: str) -> str:
    """The pages of this folder: those that are named, and the others where `…` stands."""
    folder, named = (DOCS / page).parent, names.split()
    others = sorted({file.stem for file in folder.glob("*.md")} - {"index", *named})
    where = named.index("…")
    listed = "\n".join([*named[:where], *others, *named[where + 1 :]])
    return f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in lines
    )


def commands(page: str) -> str:
    """Every command with its arguments and options."""
    import typer

    from ctlpp.cli.main import make_app

    root = typer.main.get_command(make_app())
    return "\n\n".join(_command(f"ctlpp {name}", one) for name, one in root.commands.items())


def _command(name: str, command: Any) -> str:
    about = command.help or ""
    if hasattr(command, "commands"):
        return "\n\n".join(
            [f"## {name}", about, *(_command(f"{name} {n}", c) for n, c in command.commands.items())]
        )
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join(
        [name, *(one.metavar or one.name.upper() for one in arguments), "[OPTIONS]" * bool(options)]
    )
    rows = [(f"`{one.metavar or one.name.upper()}`", one.help or "") for one in arguments]
    rows += [
        (", ".join(f"`{way}`" for way in (*one.opts, *one.secondary_opts)), _explain(one)) for one in options
    ]
    return f"## {name}\n\n{about}\n\n```text\n{usage}\n```\n\n{table(['', ''], rows)}"


def _explain(option: Any) -> str:
    """The help of an option, with its default where the help does not say it."""
    text, default = option.help or "", option.default
    shown = default not in (None, False, (), []) and "[default" not in text and not callable(default)
    return f"{text} [default: {default}]" if shown else text


def python(page: str) -> str:
    """The names of `import ctlpp`, functions first."""
    functions = [name for name in sorted(ctlpp.__all__) if name[0].islower()]
    classes = [name for name in sorted(ctlpp.__all__) if name[0].isupper()]
    blocks = [f"### {name}\n\n{_autodoc('function', name)}" for name in functions]
    return "\n\n".join(
        [
            "## Functions",
            *blocks,
            "## Classes",
            *(f"### {name}\n\n{_autodoc('class', name)}" for name in classes),
        ]
    )


def _autodoc(kind: str, name: str) -> str:
    members = "\n   :members:" * (kind == "class")
    return f"```{{eval-rst}}\n.. auto{kind}:: ctlpp.{name}{members}\n```"


def settings(page: str) -> str:
    """The options of `generate`."""
    from ctlpp.benchmark.variants import Settings

    return table(
        ["option", "default", "meaning"],
        [(f"`{one.name}`", f"`{one.default}`", one.metadata["help"]) for one in fields(Settings)[1:]],
    )


def models(page: str) -> str:
    """The zoo, and the parameters of each model by preset at the paper's size."""
    from ctlpp.models import PRESETS
    from ctlpp.models.zoo import MODELS, build, parameters

    rows = [
        (
            f"`{one.name}`",
            one.about,
            *(f"{parameters(build(one.name, 41, 8, preset)):,}" for preset in PRESETS),
        )
        for one in MODELS.values()
    ]
    return table(["model", "what it is", *(f"parameters, `{preset}`" for preset in PRESETS)], rows)


def sizes(page: str) -> str:
    """The keyword arguments of every model by preset."""
    from ctlpp.models import PRESETS
    from ctlpp.models.zoo import MODELS

    rows = [
        (f"`{one.name}`", f"`{size}`", *(one.sizes[preset][size] for preset in PRESETS))
        for one in MODELS.values()
        for size in one.sizes["authors"]
    ]
    return table(["model", "size", *(f"`{preset}`" for preset in PRESETS)], rows)


def recipes(page: str) -> str:
    """The recipes by preset and model, as far as they differ."""
    from ctlpp.models import PRESETS
    from ctlpp.training.recipe import Recipe, recipe_for

    columns = [(model, preset) for preset in PRESETS for model in ("lstm", "transformer", "ndr")]
    made = [recipe_for(*column) for column in columns]
    differing = [
        one.name for one in fields(Recipe) if len({getattr(recipe, one.name) for recipe in made}) > 1
    ]
    rows = [
        (f"`{preset}`", f"`{model}`", *(getattr(recipe, name) for name in differing))
        for (model, preset), recipe in zip(columns, made, strict=True)
    ]
    return table(["preset", "model", *(f"`{name}`" for name in differing)], rows)


def measures(page: str) -> str:
    """The measures of an analysis."""
    from ctlpp.analysis.folder import MEASURES

    return table(
        ["name in files", "in tables", "meaning"],
        [(f"`{name}`", one.label, one.meaning) for name, one in MEASURES.items()],
    )


def opening(title: str, page: str) -> str:
    """A section of `reproduction.md` up to its first heading; see `section`."""
    return HEADING.split(section(title, page), maxsplit=1)[0]


def readme(title: str, page: str) -> str:
    """A section of the README; see `section`."""
    return section(title, page, DOCS.parent / "README.md")


def glossary(page: str) -> str:
    """That of CONTRIBUTING.md."""
    return section("Glossary", page, DOCS.parent / "CONTRIBUTING.md")


def whole(name: str, page: str) -> str:
    """A file of the repository's top folder."""
    return _lead_on((DOCS.parent / name).read_text(), DOCS.parent / name, page)


def section(title: str, page: str, file: Path = DOCS / REPRODUCTION) -> str:
    """A section of `reproduction.md`, without its heading; its links lead to where they led."""
    text = file.read_text()
    here = next((heading for heading in HEADING.finditer(text) if heading[2] == title), None)
    if here is None:
        raise ValueError(f"docs/{page}.md asks for the section {title!r} of {file.name}, which has none")
    after = (heading for heading in HEADING.finditer(text, here.end()) if len(heading[1]) <= len(here[1]))
    body = text[here.end() : next((heading.start() for heading in after), len(text))]
    body = body.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    body = HEADING.sub(lambda heading: f"{heading[1][len(here[1]) - 1 :]} {heading[2]}", body)
    return _lead_on(body.strip(), file, page)


def _lead_on(text: str, file: Path, page: str) -> str:
    """A part of a file for a page, where its links lead to what they led to in the file."""
    return LINK.sub(lambda link: f"]({_moved(link[1], file, page)}{link[2] or ''})", text)


def _moved(target: str, file: Path, page: str) -> str:
    if "://" in target:
        return target
    return Path(os.path.relpath(file.parent / target, (DOCS / page).parent)).as_posix()


def homes() -> dict[str, str]:
    """Anchor in `reproduction.md` -> the page within docs/ that has it now, with the anchor there."""
    text, found = (DOCS / REPRODUCTION).read_text(), {}
    for file in DOCS.rglob("*.md"):
        page = file.relative_to(DOCS).as_posix()
        for place in PLACE.finditer(file.read_text()):
            if place[1] in ("section", "opening"):
                inner = HEADING.findall(fill(place[0], page.removesuffix(".md")))
                found |= {slug(place[2]): page} | {slug(title): f"{page}#{slug(title)}" for _, title in inner}
    return found | {
        slug(heading): "results/index.md"
        for _, heading in HEADING.findall(text)
        if slug(heading) not in found
    }


def slug(heading: str) -> str:
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
