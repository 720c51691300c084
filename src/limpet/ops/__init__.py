"""What every front end calls, so that the command line, the web and Python show the same things."""
