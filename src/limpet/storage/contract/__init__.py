"""What every store must do, and what it answers."""
