#include "tools/redis/redis_address.hpp"

#include <sepal/base/whole_number.hpp>

namespace sepal::tools {
namespace {

constexpr std::uint32_t port_max = 65535;
constexpr std::uint32_t database_max = 0x7fffffff;

std::optional<std::uint32_t> number_up_to(std::string_view text, std::uint32_t most) {
  const auto number = parse_whole<std::uint32_t>(text);
  return number && *number <= most ? number : std::nullopt;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Cuts the last `mark`, and what stands behind it, off the text. Returns what stood behind it; nothing if
// there is no mark.
std::optional<std::string_view> take_behind(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view behind = text.substr(at + mark.size());
  text = text.substr(0, at);
  return behind;
}

Error wrong(std::string_view text, const std::string& why) {
  return fail(Errc::out_of_range, "'" + std::string(text) + "' " + why);
}

Error password_in_address() {
  return fail(Errc::out_of_range,
              "an address must not have a password, because other users of the machine can see it; put it "
              "into the environment: --help names the variables");
}

// Host and port: "host", "host:7000", "[::1]:7000". An address of IPv6 has colons itself, so it stands in
// brackets.
bool take_host(std::string_view rest, RedisAddress& address) {
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view behind = rest.substr(end + 1);
    if (!behind.empty() && behind[0] != ':') return false;
    if (!behind.empty()) port = behind.substr(1);
    rest = rest.substr(1, end - 1);
  } else {
    port = take_behind(rest, ":");
  }
  address.host = rest;
  if (!port) return !rest.empty();
  const auto number = number_up_to(*port, port_max);
  address.port = static_cast<std::uint16_t>(number.value_or(0));
  return !rest.empty() && address.port != 0;
}

}  // namespace

std::string RedisAddress::text() const {
  return host.empty() ? path : host + ":" + std::to_string(port);
}

Result<RedisAddress> parse_address(std::string_view text) {
  RedisAddress address;
  std::string_view rest = text;
  std::optional<std::string_view> database;
  address.tls = take_prefix(rest, "rediss://");
  if (take_prefix(rest, "unix://")) {
    database = take_behind(rest, "?db=");
    // A path may have an '@' as well, so only one before the path ends a user's name.
    if (const std::size_t at = rest.find('@'); at < rest.find('/')) {
      address.user = rest.substr(0, at);
      rest.remove_prefix(at + 1);
    }
    address.path = rest;
    // redis-cli takes USER:PASSWORD here. The error does not repeat the text: it would show the password.
    if (address.user.find(':') != std::string::npos) return password_in_address();
    if (!rest.starts_with('/')) return wrong(text, "names no socket: unix:///PATH is expected");
  } else if (address.tls || take_prefix(rest, "redis://")) {
    database = take_behind(rest, "/");
    if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
      address.user = rest.substr(0, at);
      rest.remove_prefix(at + 1);
    }
    if (address.user.find(':') != std::string::npos) return password_in_address();
    if (!take_host(rest, address))
      return wrong(text, "names no host and port: redis://HOST:PORT is expected");
  } else {
    return wrong(text, "is no address: redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH is expected");
  }
  if (!database || database->empty()) return address;
  address.database = number_up_to(*database, database_max);
  if (!address.database) return wrong(text, "names no database: a number is expected at its end");
  return address;
}

}  // namespace sepal::tools
