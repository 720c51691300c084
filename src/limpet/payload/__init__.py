"""Arguments and results: signatures, JSON, secrets, upgrades, and the context of a running job."""
