"""All benchmarks, one after the other."""

from benchmarks import engines, exchange, rules

engines.main()
rules.main()
exchange.main()
