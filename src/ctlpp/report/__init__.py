"""One self-contained page over any number of run folders."""
