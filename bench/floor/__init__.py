"""What Django, DRF, the server and the database cost by themselves. Imports nothing from the product."""
