// LATENCY GRAPH: the samples of an event as a picture of letters.
//
//     command - high 500 ms, low 100 ms (all time high 500 ms)
//     -------- ...
//        #      the highest row: samples that reach it
//       _|
//      o||
//     _|||
//
//     1111      how long ago, read downwards: 15 seconds, 12 seconds ...
//     5210
//     ssss
#pragma once

#include <sepal/command/observe/latency_events.hpp>

#include <string>

namespace sepal::command {

[[nodiscard]] std::string latency_graph_of(const LatencyEvents::Summary& event, WallTime now);

}  // namespace sepal::command
