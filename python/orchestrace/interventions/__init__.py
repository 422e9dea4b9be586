"""What can be changed about a recorded run, in its content and in its timing."""
