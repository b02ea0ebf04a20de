#include "tools/build/plan_nodes.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <boost/crc.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::uint64_t parts_min = 64;
constexpr std::uint64_t parts_max = 4096;
static_assert(std::has_single_bit(parts_min) && std::has_single_bit(parts_max) && parts_min <= parts_max,
              "the count of parts doubles until it is the greatest");
constexpr std::uint64_t part_bytes_max = std::uint64_t{256} << 20;
// A cluster has at least three masters.
constexpr std::uint64_t masters_shown[] = {3, 4, 6, 8, 12, 16, 24, 32, 48};
// A save, or a new replica, forks the server: what clients change meanwhile is copied. The bits of a Bloom
// filter lie anywhere, so that may be all of it.
constexpr std::uint64_t memory_for_each_byte = 2;

// The items of a part vary by chance as the successes of a binomial distribution, whose standard deviation is
// below the root of its mean. Fewer than one in ten million parts of a hundred items or more exceed their
// share by more than `deviations` of these.
std::uint64_t part_capacity(std::uint64_t items, std::uint64_t parts) {
  constexpr double deviations = 6;
  const double share = static_cast<double>(items) / static_cast<double>(parts);
  return static_cast<std::uint64_t>(std::ceil(share + deviations * std::sqrt(share)));
}

Result<Parts> divide_by(const PlanRequest& request, std::uint64_t count) {
  const std::uint64_t capacity = part_capacity(request.capacity, count);
  const auto plan = plan_first_layer({request.error_rate, capacity, request.expansion});
  if (!plan || plan->byte_count() > filter_bytes_max / count) return fits_nowhere();
  return Parts{.count = count, .capacity = capacity, .bytes = plan->byte_count()};
}

// The masters share the slots as `redis-cli --cluster create` deals them out. The slot of users:{7} is
// the checksum of "7" (Redis Cluster Specification, "Key distribution model").
std::uint64_t most_parts_on_one(std::uint64_t parts, std::uint64_t masters) {
  // The unit of division is a slot, so masters get slightly different numbers of parts. The fullest master
  // decides how much memory each machine needs.
  constexpr double slots = 16384;
  std::vector<double> ends;  // behind the last slot of each master
  for (std::uint64_t master = 1; master <= masters; ++master)
    ends.push_back(std::round(slots * static_cast<double>(master) / static_cast<double>(masters)));
  std::vector<std::uint64_t> counts(masters);
  for (std::uint64_t part = 0; part < parts; ++part) {
    const std::string name = std::to_string(part);
    boost::crc_xmodem_t checksum;
    checksum.process_bytes(name.data(), name.size());
    const double slot = checksum.checksum() % static_cast<unsigned>(slots);
    const auto master = static_cast<std::size_t>(std::ranges::upper_bound(ends, slot) - ends.begin());
    SEPAL_ASSERT(master < counts.size(), "a slot belongs to no master");
    ++counts[master];
  }
  return std::ranges::max(counts);
}

// The words that BF.RESERVE needs for this growth.
std::string growth_words(const PlanRequest& request) {
  if (request.expansion == 0) return " NONSCALING";
  return request.expansion == PlanRequest{}.expansion ? "" : format(" EXPANSION %u", request.expansion);
}

}  // namespace

Result<Parts> divide(const PlanRequest& request) {
  const auto sound = check_options(
      {.error_rate = request.error_rate, .capacity = request.capacity, .expansion = request.expansion});
  if (!sound) return sound.error();
  for (std::uint64_t count = parts_min;; count *= 2) {
    auto parts = divide_by(request, count);
    // There is no count behind the greatest one: its parts may be larger than part_bytes_max, or the answer
    // is an error.
    const bool last = count == parts_max;
    if (last || (parts && parts->bytes <= part_bytes_max)) return parts;
  }
}

Result<std::vector<std::string>> nodes_report(const PlanRequest& request) {
  const auto parts = divide(request);
  if (!parts) return parts.error();
  std::vector<std::string> lines;
  const std::string rate = digits_of_real(request.error_rate);  // BF.RESERVE is to read the same rate
  const std::uint64_t bytes = parts->bytes * parts->count;
  lines.push_back(format("error rate %s, %llu items, in %llu parts: users:{0} to users:{%llu}", rate.c_str(),
                         wide(request.capacity), wide(parts->count), wide(parts->count - 1)));
  lines.emplace_back();
  lines.push_back(format("  the first part    BF.RESERVE users:{0} %s %llu%s", rate.c_str(),
                         wide(parts->capacity), growth_words(request).c_str()));
  lines.push_back("  its bitmap        " + bytes_text(parts->bytes));
  lines.push_back("  all bitmaps       " + bytes_text(bytes));
  lines.emplace_back();
  lines.emplace_back(
      "Machines of a cluster. A save or a new replica may need the memory of all bitmaps once more.");
  lines.emplace_back("  masters  parts on one  memory of its machine");
  for (const std::uint64_t masters : masters_shown) {
    const std::uint64_t on_one = most_parts_on_one(parts->count, masters);
    lines.push_back(format("  %7llu  %12llu  %s", wide(masters), wide(on_one),
                           bytes_text(on_one * parts->bytes * memory_for_each_byte).c_str()));
  }
  lines.emplace_back("Each master has a replica on another machine, with as much memory.");
  lines.emplace_back();
  lines.push_back("One sepald in their place holds it in " + bytes_text(bytes + bytes / 3) +
                  ": it saves without a copy.");
  return lines;
}

}  // namespace sepal::tools
