#include <sepal/base/assert.hpp>
#include <sepal/base/displace.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace sepal {
namespace {

constexpr std::size_t ip4_bytes = 4;
constexpr std::size_t ip6_bytes = 16;
constexpr std::size_t ip6_network_bytes = 8;
// ::ffff:0:0/96: an IPv4 address follows.
constexpr std::array<unsigned char, ip6_bytes - ip4_bytes> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

std::uint64_t network_of(std::span<const unsigned char> address) {
  SEPAL_ASSERT(address.size() == ip4_bytes || address.size() == ip6_bytes, "an address of neither length");
  std::span<const unsigned char> network = address.first(std::min(address.size(), ip6_network_bytes));
  if (address.size() == ip6_bytes && std::ranges::equal(address.first(mapped.size()), mapped))
    network = address.last(ip4_bytes);
  std::uint64_t number = 0;
  for (const unsigned char byte : network) number = number << 8 | byte;
  return number;
}

std::size_t displaced_index(std::span<const std::uint64_t> networks, std::uint64_t random) {
  SEPAL_ASSERT(!networks.empty(), "no connection has a place to give up");
  std::vector<std::uint64_t> sorted(networks.begin(), networks.end());
  std::ranges::sort(sorted);
  const auto count_of = [&](std::uint64_t network) {
    const auto [begin, end] = std::equal_range(sorted.begin(), sorted.end(), network);
    return static_cast<std::size_t>(end - begin);
  };
  std::size_t most = 0;
  for (std::size_t at = 0; at < sorted.size(); at += count_of(sorted[at]))
    most = std::max(most, count_of(sorted[at]));
  // The candidates are the connections of all networks that have the most.
  const auto candidates = static_cast<std::uint64_t>(
      std::ranges::count_if(networks, [&](std::uint64_t network) { return count_of(network) == most; }));
  std::uint64_t chosen = random % ((candidates + 1) / 2);
  for (std::size_t index = 0; index < networks.size(); ++index)
    if (count_of(networks[index]) == most && chosen-- == 0) return index;
  SEPAL_ASSERT(false, "a candidate is missing");
  return 0;
}

}  // namespace sepal
