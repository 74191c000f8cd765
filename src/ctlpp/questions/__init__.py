"""Questions as text for systems that we do not train, and their answers."""
