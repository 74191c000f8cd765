"""Pictures: of tasks, of what a run has learned, of many runs beside the published numbers."""
