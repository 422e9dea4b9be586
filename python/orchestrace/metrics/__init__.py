"""What recordings say of themselves, trace by trace, and two corpora side by side."""
