// rload: a RESP load generator that takes little CPU, so that the server limits the measurement.
//
//     rload --port 6379 --conns 50 --pipeline 16 --requests 1000000 BF.ADD key item:{r}
//
// Each connection sends a batch of `--pipeline` requests, waits for all replies, and sends the next batch.
// {r} is a random integer in [0, --range), {s} a sequence number (unique in the run). {r*N} and {s*N} repeat
// their argument N times, for BF.MADD and the like. Several commands, separated by --then, take turns batch
// by batch. Batches are prepared before the clock starts, up to --prepare megabytes, and reused if they hold
// no sequence number. A reused batch finds its items known, and their blocks perhaps in a cache. With --rate
// a batch is sent when it is due, and its latency counts from then. In this mode rload asks the scheduler for
// short slices, so that its own wait for a core adds little. SIGINT ends the load early.
//
// Prints one line of JSON: operations a second, the latency of a batch in microseconds (p50, p99, p99.9,
// max), and error replies. For a server on this machine it also prints the CPU microseconds of an operation
// (user, system) and the resident memory. The exit status is 3 if the server closed a connection or stopped
// answering.
#include <sepal/base/thread.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "load.hpp"
#include "options.hpp"
#include "server_process.hpp"

namespace rload {
namespace {

std::uint32_t percentile(const std::vector<std::uint32_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(static_cast<double>(sorted.size()) * share))];
}

void print(const Outcome& outcome, const ServerProcess::Cpu& cpu, double resident_megabytes) {
  const double operations = static_cast<double>(std::max<std::uint64_t>(outcome.completed, 1));
  const double user = cpu.user * 1e6 / operations;
  const double system = cpu.system * 1e6 / operations;
  const auto& latencies = outcome.latencies_us;
  std::printf("{\"ops_per_s\": %.0f, \"seconds\": %.2f, \"completed\": %llu, \"errors\": %llu, ",
              operations / outcome.seconds, outcome.seconds,
              static_cast<unsigned long long>(outcome.completed),
              static_cast<unsigned long long>(outcome.errors));
  std::printf("\"batch_us\": {\"p50\": %u, \"p99\": %u, \"p999\": %u, \"max\": %u}, ",
              percentile(latencies, 0.5), percentile(latencies, 0.99), percentile(latencies, 0.999),
              latencies.empty() ? 0 : latencies.back());
  std::printf("\"server_cpu_us_per_op\": %.4f, \"user\": %.4f, \"sys\": %.4f, \"server_rss_mb\": %.1f}\n",
              user + system, user, system, resident_megabytes);
}

}  // namespace
}  // namespace rload

int main(int argc, char** argv) {
  const rload::Options options = rload::read_options(argc, argv);
  rload::Load load(options);
  // If the kernel refuses, the latencies include more of rload's own waits.
  if (options.requests_per_second > 0) static_cast<void>(sepal::ask_for_short_slices());
  const rload::ServerProcess server(options.server_pid, options.port);
  const auto before = server.cpu();
  const rload::Outcome outcome = load.run();
  const auto after = server.cpu();
  rload::print(outcome, {.user = after.user - before.user, .system = after.system - before.system},
               server.resident_megabytes());
  return outcome.complete ? 0 : rload::exit_failed;
}
