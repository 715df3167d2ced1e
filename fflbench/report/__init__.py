"""Reports: tables and figures from records. Nothing here runs a cell."""
