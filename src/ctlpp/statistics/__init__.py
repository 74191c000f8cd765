"""What many seeds say together, and what was published."""
