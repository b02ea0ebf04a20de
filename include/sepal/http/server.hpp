// A small HTTP server for operators: it answers GET and HEAD of the paths that it is given.
//
// It has a thread of its own, so no worker waits for it. It believes nothing: a request has a deadline and a
// bound on its length, and no body; its Host must name this server, so that no web page can read the answers
// through a browser (DNS rebinding); the number of connections has a bound, and a new one takes the place of
// another one (base/displace.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/tls/context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::http {

// Connections at a time.
inline constexpr std::size_t connections_max = 256;
// A request line with its headers.
inline constexpr std::size_t request_bytes_max = 8192;
// The descriptors that a server has open: its listener, its epoll set and what belongs to it, connections,
// and one that is about to be closed.
inline constexpr std::size_t descriptors_max = connections_max + 6;

struct Options {
  std::string bind = "127.0.0.1";  // an address
  std::uint16_t port = 0;          // 0: the system picks
  // Names and addresses that a Host header may have, besides localhost, loopback addresses, and the address
  // at which the connection arrived.
  std::vector<std::string> hosts;
  // Null: plain HTTP. Else it has a context before start(), and outlives the server.
  const tls::Current* tls = nullptr;
};

// Views into the request; valid while it is answered.
struct Request {
  std::string_view path;    // begins with '/'; as it came, without the query
  std::string_view query;   // behind '?'; empty if there is none
  std::string_view accept;  // the header; empty if there is none
};

struct Response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // shared, so that many clients can be sent one text; not null
};

// What answers one path. Called on the server's thread.
struct Route {
  std::string path;  // exactly
  std::function<Response(const Request&)> answer;
};

// Whether `bind` is an address, as a start demands. Errors: io, with a sentence.
Result<void> check_address(const std::string& bind);

// Synchronised, except start and stop, which only the thread that made the server may call.
class Server {
 public:
  Server(Options options, std::vector<Route> routes);
  // Stops. It throws only if there is no memory for the message to the thread; then the process may end.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens and starts the thread. Errors: in_use (with the address), io.
  Result<void> start();
  [[nodiscard]] std::uint16_t port() const;  // the one in use; after start()
  // Closes all connections and joins the thread. Does nothing the second time.
  void stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::http
