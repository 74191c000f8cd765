"""CTL++: do neural networks compose known functions in patterns never seen in training?"""

__version__ = "0.1.0"
