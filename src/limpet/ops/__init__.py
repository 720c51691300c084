"""What every front end calls: the command line, the web and Python show the same things."""
