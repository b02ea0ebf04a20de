#include "http/host.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <cctype>

namespace sepal::http {
namespace {

namespace ip = boost::asio::ip;

bool is_port(std::string_view text) {
  constexpr std::size_t digits_max = 5;
  return text.size() <= digits_max && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The name without its port, and without the brackets of an IPv6 address. Empty if it is none.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
    return host.substr(1, end - 1);
  }
  const std::size_t colon = host.find(':');
  if (colon == std::string_view::npos) return host;
  return is_port(host.substr(colon + 1)) ? host.substr(0, colon) : std::string_view();
}

bool same(std::string_view one, std::string_view other) {
  return std::ranges::equal(
      one, other, [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

// An IPv4 address that arrives at an IPv6 socket has a longer form.
ip::address plain(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

}  // namespace

bool names_this_server(std::string_view host, std::string_view arrived_at,
                       const std::vector<std::string>& hosts) {
  const std::string name(name_of(host));
  if (name.empty()) return false;
  if (same(name, "localhost")) return true;
  if (std::ranges::any_of(hosts, [&](const std::string& each) { return same(each, name); })) return true;
  // A page that has its name rebound to this server sends that name as Host. An address cannot be rebound, so
  // the address at which the connection arrived is good.
  boost::system::error_code none;
  const ip::address address = ip::make_address(name, none);
  if (none) return false;
  if (address.is_loopback()) return true;
  const ip::address own = ip::make_address(std::string(arrived_at), none);
  return !none && plain(address) == plain(own);
}

}  // namespace sepal::http
