// Time, as a value that is handed in. Modules below the server never read a clock.
#pragma once

#include <chrono>

namespace sepal {

using WallTime = std::chrono::system_clock::time_point;    // what clients and files see
using SteadyTime = std::chrono::steady_clock::time_point;  // what durations are measured with

}  // namespace sepal
