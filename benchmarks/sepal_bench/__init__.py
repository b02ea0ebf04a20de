"""The parts of benchmarks/run and benchmarks/plot."""
