"""All benchmarks, one after the other."""

from benchmarks import engines, rules

engines.main()
rules.main()
