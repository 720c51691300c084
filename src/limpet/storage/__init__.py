"""Where jobs live: the contract, and the stores that keep it."""
