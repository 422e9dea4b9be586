"""When events happen: schedules on fewer slots, bottlenecks, fits of speedup."""
