"""Fragment exchange: participants swap encrypted random fragments of their updates in pairs."""
