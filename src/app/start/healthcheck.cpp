#include "app/start/healthcheck.hpp"

#include <sepal/base/descriptor.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/tls/connection.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <optional>
#include <span>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <system_error>
#include <vector>

#include "app/start/listeners.hpp"

namespace sepal::app {
namespace {

// For a connection, and for each send and receive. A server that answers later is of no use to its clients.
constexpr timeval patience{.tv_sec = 5, .tv_usec = 0};
constexpr std::size_t reply_bytes_max = 4096;

// The code of an error that is a sign of life.
constexpr Errc asked_for_certificate = Errc::not_found;

struct Answer {
  std::string_view begin;
  Health health;
};

constexpr std::array answers{
    Answer{"+PONG", {.good = true, .meaning = "it answers PONG"}},
    Answer{"-ERR max number of clients", {.good = true, .meaning = "it serves as many clients as it may"}},
    Answer{"-NOAUTH", {.good = true, .meaning = "it runs, and asks for another login than this check has"}},
    Answer{"-WRONGPASS",
           {.good = true, .meaning = "it runs, and asks for another login than this check has"}},
    Answer{"-NOPERM", {.good = true, .meaning = "it runs, and its user 'default' may not send PING"}},
    Answer{"-DENIED", {.good = true, .meaning = "it runs, and takes this check for another machine"}},
    Answer{"-BUSY", {.good = true, .meaning = "it runs a long script"}},
    Answer{"-LOADING", {.good = false, .meaning = "it still loads its data"}},
};

Error unreachable(const Listener& listener, const std::string& reason) {
  return fail(Errc::io, shown(listener) + ": " + reason);
}

Error failed_call(const Listener& listener, int error_number) {
  // A socket with a time limit reports its end as a lack of data.
  const bool late = error_number == EAGAIN || error_number == EINPROGRESS;
  const bool closed = error_number == EACCES && !listener.path.empty();
  return unreachable(listener,
                     late ? "no answer within " + std::to_string(patience.tv_sec) + " seconds"
                          : std::generic_category().message(error_number) +
                                (closed ? "; run the check as root or as the user of the server" : ""));
}

Result<Descriptor> connected(const Listener& listener, const sockaddr* address, socklen_t length) {
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return failed_call(listener, errno);
  for (const int direction : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket.number(), SOL_SOCKET, direction, &patience, sizeof patience) != 0)
      return failed_call(listener, errno);
  }
  // The bound on sends is the bound of connect() as well.
  if (::connect(socket.number(), address, length) != 0) return failed_call(listener, errno);
  return socket;
}

Result<Descriptor> connect_to_path(const Listener& listener) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (listener.path.size() >= sizeof address.sun_path) return failed_call(listener, ENAMETOOLONG);
  std::memcpy(address.sun_path, listener.path.data(), listener.path.size());
  return connected(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// The address at which this machine reaches itself, for one that stands for all.
std::string reachable(std::string address) {
  if (address.starts_with('-')) address.erase(0, 1);
  if (address == "*" || address == "0.0.0.0") return "127.0.0.1";
  return address == "::" || address == "::*" ? "::1" : address;
}

Result<Descriptor> connect_to_port(const Listener& listener) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(listener.port);
  if (const int wrong = ::getaddrinfo(reachable(listener.address).c_str(), port.c_str(), &hints, &list);
      wrong != 0)
    return unreachable(listener, ::gai_strerror(wrong));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  return connected(listener, list->ai_addr, list->ai_addrlen);
}

// A connection that waits for the server, at most for `patience`. Over TLS it takes any certificate: it sends
// its password to this machine only, and asks whether the server lives, not who it is.
class Line {
 public:
  static Result<Line> open(const Listener& listener) {
    auto socket = listener.path.empty() ? connect_to_port(listener) : connect_to_path(listener);
    if (!socket) return socket.error();
    Line line(listener, std::move(*socket));
    if (!listener.tls) return line;
    auto context = tls::Context::load_for_client({.verifies = false});
    if (!context) return context.error();
    line.tls_ = std::make_unique<tls::Connection>(**context, line.socket_.number(), listener.address);
    if (line.tls_->handshake() != Status::done) return line.tls_failed();
    return line;
  }

  // An error shows at the next receive().
  void send(std::string_view bytes) {
    if (tls_ == nullptr)
      static_cast<void>(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
    else
      static_cast<void>(tls_->send(bytes));
  }
  // 0: the server sends no more.
  Result<std::size_t> receive(std::span<char> into) {
    if (tls_ != nullptr) {
      const tls::Connection::Transfer received = tls_->receive(into);
      if (received.status == Status::done || received.status == Status::ended) return received.byte_count;
      return tls_failed();
    }
    ssize_t received = 0;
    do {
      received = ::recv(socket_.number(), into.data(), into.size(), 0);
    } while (received < 0 && errno == EINTR);
    if (received < 0) return failed_call(*listener_, errno);
    return static_cast<std::size_t>(received);
  }

 private:
  using Status = tls::Connection::Status;
  Line(const Listener& listener, Descriptor socket) : listener_(&listener), socket_(std::move(socket)) {}

  // A server that asks for a certificate says so behind the handshake, or in it: that depends on the version.
  [[nodiscard]] Error tls_failed() const {
    if (tls_->failure() == tls::Failure::refused_by_peer && !tls_->reason().empty())
      return fail(asked_for_certificate, {});
    return tls_->reason().empty() ? failed_call(*listener_, EAGAIN)
                                  : unreachable(*listener_, "TLS: " + tls_->reason());
  }

  const Listener* listener_;
  Descriptor socket_;
  std::unique_ptr<tls::Connection> tls_;  // null: without TLS
};

std::string request(const std::vector<std::string_view>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words)
    text.append("$").append(std::to_string(word.size())).append("\r\n").append(word).append("\r\n");
  return text;
}

// The last of `count` lines; an earlier one if the server closes the connection behind it, as a full one
// does. Such a server has perhaps closed it before the request is sent, so an error of the send is left to
// the receive.
Result<std::string> last_line(const Listener& listener, Line& line, const std::string& requests,
                              std::size_t count) {
  line.send(requests);
  std::string text;
  std::array<char, reply_bytes_max> piece;
  while (static_cast<std::size_t>(std::ranges::count(text, '\n')) < count && text.size() < reply_bytes_max) {
    const auto received = line.receive(piece);
    if (!received && text.empty()) return received.error();
    if (!received || *received == 0) break;
    text.append(piece.data(), *received);
  }
  if (text.empty()) {
    const bool may_speak_tls = !listener.tls && listener.path.empty();
    return unreachable(
        listener,
        std::string("it closed the connection without an answer") +
            (may_speak_tls ? " (if it speaks TLS: --dir with its data directory, or --tls-port)" : ""));
  }
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// Logs in only where the server asks for it: a needless login would be a failed one in the server's log. The
// answer to a wrong password may be late on purpose, against guessing. Then the first answer stands: the
// server has answered.
Result<std::string> ask(const Listener& listener, const std::string& password) {
  auto line = Line::open(listener);
  if (!line) return line.error();
  const std::string ping = request({"PING"});
  auto first = last_line(listener, *line, ping, 1);
  if (!first || password.empty() || !first->starts_with("-NOAUTH")) return first;
  auto second = last_line(listener, *line, request({"AUTH", password}) + ping, 2);
  return second ? second : first;
}

struct Asked {
  std::vector<Listener> listeners;
  std::string reason;  // why they are those of the settings, although no flag names them; may be empty
};

// The notes of the server may be closed to the user of the check.
std::string reason_for_settings(const settings::Settings& settings, const Error& unread) {
  const std::string denied = std::generic_category().message(EACCES);
  if (!unread.detail.ends_with(denied)) return " (asked because of this: " + unread.detail + ")";
  return " (asked because " + settings.data_directory + "/LOCK cannot be read: " + denied +
         "; run the check as root or as the user of the server)";
}

// A flag is the operator's own word. The notes of the server are newer than a file, and know the flags of the
// server.
Asked listeners_to_ask(const settings::Settings& settings) {
  Asked asked;
  if (!settings.address_is_flag) {
    const auto disk = storage::make_posix_disk();
    // Another user's directory cannot be read, for example. Then the settings say where the server listens.
    const auto notes = storage::read_notes(*disk, settings.data_directory);
    if (!notes) asked.reason = reason_for_settings(settings, notes.error());
    for (const std::string& note : notes ? *notes : std::vector<std::string>())
      if (auto listener = listener_of(note)) asked.listeners.push_back(std::move(*listener));
  }
  if (asked.listeners.empty()) asked.listeners = listeners_of(settings.server, settings.server.port);
  return asked;
}

// Without this the check would ask at the usual port, or at that of a server that was killed. Another server
// may answer there. A directory that may not be read tells nothing. Nor does a directory without a LOCK that
// no flag names: one file may serve the server and checks that cannot see its data.
Result<void> require_use(const settings::Settings& settings) {
  if (settings.address_is_flag) return {};
  const auto disk = storage::make_posix_disk();
  const std::string unused = "no sepald uses the data directory " + settings.data_directory;
  const auto there = disk->exists(settings.data_directory);
  if (settings.directory_is_flag && there && !*there)
    return fail(Errc::not_found, unused + ": it is not there; correct --dir");
  const auto use = storage::use_of(*disk, settings.data_directory);
  if (!use || *use == storage::DirectoryUse::now) return {};
  if (*use == storage::DirectoryUse::none && !settings.directory_is_flag) return {};
  return fail(Errc::not_found, unused);
}

}  // namespace

Health health_of(std::string_view reply) {
  const auto* const found =
      std::ranges::find_if(answers, [&](const Answer& a) { return reply.starts_with(a.begin); });
  return found == answers.end() ? Health{.meaning = "it gives no answer of sepald"} : found->health;
}

Result<std::string> check_health(const settings::Settings& settings) {
  if (auto used = require_use(settings); !used) return used.error();
  std::optional<Error> first;
  const Asked asked = listeners_to_ask(settings);
  for (const Listener& listener : asked.listeners) {
    const auto reply = ask(listener, settings.runtime.password);
    if (reply) {
      const Health health = health_of(*reply);
      std::string text = shown(listener) + ": " + std::string(health.meaning) + asked.reason;
      return health.good ? Result<std::string>(std::move(text)) : fail(Errc::io, std::move(text));
    }
    if (reply.error().code == asked_for_certificate)
      return shown(listener) + ": it runs, and asks for a certificate" + asked.reason;
    if (!first) first = fail(reply.error().code, reply.error().detail + asked.reason);
  }
  return first ? *first
               : fail(Errc::io, "the port is 0: only the data directory of a running server knows its port" +
                                    asked.reason);
}

}  // namespace sepal::app
