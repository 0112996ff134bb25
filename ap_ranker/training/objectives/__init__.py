"""What training optimises: one file per objective, and the registry that names them."""
