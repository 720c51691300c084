"""What the processes of a worker say to each other, and the page that they share."""
