"""What every room stands on: errors, schemas, checks of arguments, text, files that are whole or absent."""
