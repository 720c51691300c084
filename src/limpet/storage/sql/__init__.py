"""What the stores in SQL share."""
