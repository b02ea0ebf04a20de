#include <sepal/base/assert.hpp>
#include <sepal/settings/shares.hpp>

#include <algorithm>

namespace sepal::settings {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t parts = 8;
constexpr std::uint64_t filter_parts_min = 2;  // of `parts`
constexpr std::uint64_t scripts_bytes_min = 16 * mib;
// For the process itself: its code, stacks, buffers of saves and of the log, and what the heap cannot use.
constexpr std::uint64_t rest_bytes_min = 24 * mib;
constexpr std::uint64_t rest_bytes_max = 1024 * mib;
static_assert(rest_bytes_min <= rest_bytes_max && filter_parts_min <= parts);

}  // namespace

MemoryShares memory_shares(std::uint64_t available, const Settings& settings) {
  const command::RuntimeOptions defaults;
  MemoryShares shares{.clients = settings.runtime.clients_memory_max,
                      .scripts = settings.runtime.script_memory_max};
  if (available == 0) return shares;
  const std::uint64_t workers = std::max(settings.server.worker_count, 1u);
  const std::uint64_t part = available / parts;
  SEPAL_ASSERT(scripts_bytes_min <= defaults.script_memory_max,
               "the usual memory of scripts is below the least");
  // A value that an operator has set is taken as it is, because the log would contradict the configuration
  // otherwise (decisions/0034). A value that is set to the default cannot be told from the default.
  if (shares.clients == defaults.clients_memory_max) shares.clients = std::min(shares.clients, part);
  if (shares.scripts == defaults.script_memory_max)
    shares.scripts = std::clamp(part / workers, scripts_bytes_min, shares.scripts);
  // 0 is no bound. An eighth is set aside all the same, because clients will take something.
  const std::uint64_t clients = shares.clients == 0 ? part : shares.clients;
  const std::uint64_t rest = std::clamp(part, rest_bytes_min, rest_bytes_max);
  const std::uint64_t others = std::min(clients + shares.scripts * workers + rest, available);
  // Limits of an operator may take all there is. The filters keep their least share.
  shares.filters = std::max(available - others, filter_parts_min * part);
  return shares;
}

DiskShares disk_shares(std::uint64_t capacity, const Settings& settings) {
  constexpr std::uint64_t segment_parts = 16;
  constexpr std::uint64_t reserve_parts = 4;
  const Settings defaults;
  DiskShares shares{.journal_segment = settings.journal_segment_bytes,
                    .reserve = settings.disk_reserve_bytes};
  if (capacity == 0) return shares;
  SEPAL_ASSERT(storage::journal_segment_bytes_min <= defaults.journal_segment_bytes,
               "the usual segment of the journal is smaller than the smallest");
  if (shares.journal_segment == defaults.journal_segment_bytes)
    shares.journal_segment =
        std::clamp(capacity / segment_parts, storage::journal_segment_bytes_min, shares.journal_segment);
  if (shares.reserve == defaults.disk_reserve_bytes)
    shares.reserve = std::min(capacity / reserve_parts, shares.reserve);
  return shares;
}

}  // namespace sepal::settings
