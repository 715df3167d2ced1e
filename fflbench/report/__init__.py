"""Reports: tables and pictures from records. Nothing here runs a cell."""
