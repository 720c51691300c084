"""The frames that the processes of a worker exchange, and the page that they share."""
