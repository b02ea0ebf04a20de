// One thread runs everything here: the acceptor and all connections. So nothing has a lock.
//
// A connection waits until a client has sent something (`idle_max`). From then on the request has to be there
// within `request_time_max`, however slowly its bytes come, and the answer has to be read within
// `answer_time_max`. A new connection beyond the bound takes the place of another one (base/displace.hpp).
//
// Beast reads the requests (http::request_parser, fed by hand) and keeps the deadlines (tcp_stream). Its
// composed operations and its ssl_stream are not used: for each kind of stream they took longer to compile
// than the rest of a module.
#include <sepal/base/assert.hpp>
#include <sepal/base/displace.hpp>
#include <sepal/base/memory_reserve.hpp>
#include <sepal/base/random.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/http/server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_static_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <iterator>
#include <list>
#include <openssl/ssl.h>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "http/host.hpp"

namespace sepal::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace wire = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::seconds idle_max{90};  // longer than a Prometheus waits between two scrapes
constexpr std::chrono::seconds request_time_max{5};
constexpr std::chrono::seconds answer_time_max{20};
// A page takes everything from this server, and nothing that stands in its text is run.
constexpr const char* content_security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
// Connections that wait for the acceptor. The system drops what comes beyond, and its client tries again a
// second later: so the queue is longer than connections_max, and the acceptor empties it.
constexpr int backlog = 511;
// How long the acceptor waits when descriptors have run out.
constexpr std::chrono::milliseconds accept_pause{200};

Response text_response(unsigned status, std::string_view text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::string(text) + "\n")};
}

// A connection, over TLS or not.
class Connection {
 public:
  virtual ~Connection() = default;
  // Ends the connection. The handler of an operation under way is still called; it finds out, and does
  // nothing.
  virtual void leave() = 0;

  std::uint64_t network = 0;  // of the client's address
};
using Connections = std::list<std::shared_ptr<Connection>>;

// What all connections share.
struct Shared {
  const Options& options;
  const std::vector<Route>& routes;
  Connections connections;
};

using PlainStream = beast::tcp_stream;
using TlsStream = asio::ssl::stream<beast::tcp_stream>;

// Asio's context gives the reference back that it is made with. The stream takes one of its own.
TlsStream encrypted(tcp::socket socket, const tls::Context& context) {
  SSL_CTX_up_ref(context.native());
  asio::ssl::context lent(context.native());
  return {beast::tcp_stream(std::move(socket)), lent};
}

// The status line and the headers. A client of HTTP/1.1 keeps the connection unless it is told otherwise, one
// of HTTP/1.0 the other way round.
std::string head_of(const Response& response, unsigned version, bool keeps) {
  std::string text = version == 10 ? "HTTP/1.0 " : "HTTP/1.1 ";
  const std::string_view reason = wire::obsolete_reason(static_cast<wire::status>(response.status));
  text.append(std::to_string(response.status)).append(" ").append(reason).append("\r\n");
  const auto add = [&](std::string_view name, std::string_view value) {
    text.append(name).append(": ").append(value).append("\r\n");
  };
  add("Content-Type", response.content_type);
  add("Content-Length", std::to_string(response.body->size()));
  // For a browser: nothing of this is to be guessed at, kept or shown inside of another page.
  add("X-Content-Type-Options", "nosniff");
  add("Cache-Control", "no-store");
  add("X-Frame-Options", "DENY");
  add("Referrer-Policy", "no-referrer");
  add("Cross-Origin-Resource-Policy", "same-origin");
  add("Content-Security-Policy", content_security_policy);
  if (response.status == 405) add("Allow", "GET, HEAD");
  if (keeps && version == 10) add("Connection", "keep-alive");
  if (!keeps && version != 10) add("Connection", "close");
  return text.append("\r\n");
}

struct Target {
  std::string_view path;                 // with the query
  std::optional<std::string_view> host;  // nothing: the Host header has it
};

// A request to a proxy names the host (RFC 9112, 3.2.2): "http://localhost:8080/healthz". That host counts,
// and not the header.
Target target_of(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!beast::iequals(text.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = text.substr(scheme.size());
    const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
    return {.path = end == rest.size() ? "/" : rest.substr(end), .host = rest.substr(0, end)};
  }
  return {.path = text, .host = std::nullopt};
}

std::uint64_t network_of_peer(const asio::ip::address& address) {
  return address.is_v4() ? network_of(address.to_v4().to_bytes()) : network_of(address.to_v6().to_bytes());
}

template <class Stream>
class ConnectionOver final : public Connection, public std::enable_shared_from_this<ConnectionOver<Stream>> {
 public:
  ConnectionOver(Stream stream, Shared& shared) : stream_(std::move(stream)), shared_(shared) {
    error_code none;
    const auto end = socket().local_endpoint(none);
    if (!none) arrived_at_ = end.address().to_string();
    const auto peer = socket().remote_endpoint(none);
    if (!none) network = network_of_peer(peer.address());
  }

  void begin(Connections::iterator place) {
    place_ = place;
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stepped(request_time_max);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](error_code error) {
                                if (error || self->left_) return self->leave();
                                self->wait();
                              });
    } else {
      wait();
    }
  }

  void leave() override {
    // Only once: place_ names no entry of the list after that.
    if (std::exchange(left_, true)) return;
    error_code none;
    socket().close(none);
    shared_.connections.erase(place_);
  }

 private:
  void stepped(std::chrono::seconds time_max) {
    SEPAL_ASSERT(!left_, "a connection that has ended goes on");
    beast::get_lowest_layer(stream_).expires_after(time_max);
  }

  // Until the client has sent something.
  void wait() {
    // A client may have sent several requests at once. What is in the buffer already leads to no event.
    if (buffer_.size() == 0) {
      stepped(idle_max);
      return receive(&ConnectionOver::begin_request);
    }
    begin_request();
  }

  // A read of the stream is under the stream's deadline; a wait of the socket is not.
  void receive(void (ConnectionOver::*then)()) {
    stream_.async_read_some(buffer_.prepare(request_bytes_max),
                            [self = this->shared_from_this(), then](error_code error, std::size_t count) {
                              if (error || self->left_) return self->leave();
                              self->buffer_.commit(count);
                              (*self.*then)();
                            });
  }

  void begin_request() {
    stepped(request_time_max);
    // A parser is for one request.
    parser_.emplace();
    parser_->header_limit(request_bytes_max);
    request_bytes_ = 0;
    has_begun_ = false;
    parse();
  }

  // The parser takes whole lines. The rest stays in the buffer until more has come.
  void parse() {
    const bool is_there = has_begun_ || skip_empty_lines();
    error_code error;
    const std::size_t taken = is_there ? parser_->put(buffer_.data(), error) : 0;
    buffer_.consume(taken);
    has_begun_ = has_begun_ || taken > 0;
    request_bytes_ += taken;
    if (error == wire::error::need_more) error = {};
    // The parser's own bound leaves out some bytes.
    if (request_bytes_ + (parser_->is_header_done() ? 0 : buffer_.size()) > request_bytes_max ||
        error == wire::error::header_limit)
      return refuse(text_response(431, "the request is too long"));
    if (error) return refuse(text_response(400, "this is no HTTP request"));
    if (!parser_->is_header_done()) return receive(&ConnectionOver::parse);
    answer();
  }

  // Some clients send an empty line behind a request, which then stands before the next one (RFC 9112, 2.2).
  // False: nothing is there yet, or the first byte of such a line.
  bool skip_empty_lines() {
    constexpr std::string_view line_end = "\r\n";
    const auto left = [&] {
      const auto bytes = buffer_.cdata();
      return std::string_view(static_cast<const char*>(bytes.data()), bytes.size());
    };
    for (; left().starts_with(line_end); request_bytes_ += line_end.size()) buffer_.consume(line_end.size());
    return !line_end.starts_with(left());
  }

  void refuse(Response response) {
    keeps_ = false;
    write(std::move(response), 11, false);
  }

  void answer() {
    const auto& request = parser_->get();
    const bool is_head = request.method() == wire::verb::head;
    keeps_ = request.keep_alive();
    if (parser_->chunked() || parser_->content_length().value_or(0) > 0)
      return refuse(text_response(413, "a request has no body"));
    // Where such a request ends is unknown (RFC 9112, 6.3).
    if (request.count(wire::field::transfer_encoding) > 0)
      return refuse(text_response(400, "the transfer coding of the request is not chunked"));
    const Target target = target_of(view(request.target()));
    const std::string_view host = target.host.value_or(view(request[wire::field::host]));
    // Before the path is looked at: a page of another site learns nothing, not even which paths exist.
    if (request.count(wire::field::host) != 1 || !names_this_server(host, arrived_at_, shared_.options.hosts))
      return refuse(text_response(421, "the Host header does not name this server; http_hosts allows names"));
    if (!is_head && request.method() != wire::verb::get)
      return refuse(text_response(405, "only GET and HEAD are answered"));
    Response response;
    const bool fits = memory_reserve::suffices_for(
        [&] { response = answer_of(target.path, view(request[wire::field::accept])); });
    if (!fits) return refuse(text_response(503, "the system gives the server no more memory"));
    write(std::move(response), request.version(), is_head);
  }

  [[nodiscard]] Response answer_of(std::string_view target, std::string_view accept) const {
    const std::size_t mark = target.find('?');
    const std::string_view path = target.substr(0, mark);
    const auto found = std::ranges::find(shared_.routes, path, &Route::path);
    if (found == shared_.routes.end()) return text_response(404, "there is nothing here");
    const std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
    return found->answer({.path = path, .query = query, .accept = accept});
  }

  void write(Response response, unsigned version, bool is_head) {
    SEPAL_ASSERT(response.body != nullptr, "an answer has a body");
    head_ = head_of(response, version, keeps_);
    body_ = std::move(response.body);
    const std::array<asio::const_buffer, 2> parts{asio::buffer(head_),
                                                  is_head ? asio::const_buffer() : asio::buffer(*body_)};
    stepped(answer_time_max);
    asio::async_write(stream_, parts,
                      [self = this->shared_from_this()](error_code error, std::size_t /*count*/) {
                        self->has_written(error);
                      });
  }

  void has_written(error_code error) {
    body_.reset();
    if (error || left_) return leave();
    if (keeps_) return wait();
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stepped(request_time_max);
      // TLS has an end of its own, which leaves before the socket closes.
      return stream_.async_shutdown(
          [self = this->shared_from_this()](error_code /*error*/) { self->leave(); });
    }
    // What the client still sends is left unread: it has been told why.
    socket().shutdown(tcp::socket::shutdown_send, error);
    leave();
  }

  tcp::socket& socket() { return beast::get_lowest_layer(stream_).socket(); }

  static std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

  Stream stream_;
  Shared& shared_;
  Connections::iterator place_;
  std::string arrived_at_;
  // parse() leaves at most request_bytes_max in it, and a read may bring as much again: prepare() never
  // throws.
  beast::flat_static_buffer<2 * request_bytes_max> buffer_;
  std::optional<wire::request_parser<wire::empty_body>> parser_;
  std::size_t request_bytes_ = 0;  // of the request that the parser is in, and of empty lines before it
  bool has_begun_ = false;         // the parser has taken bytes of it
  // The answer that is being written.
  std::string head_;
  std::shared_ptr<const std::string> body_;
  bool keeps_ = false;
  bool left_ = false;
};

Error cannot_listen(const Options& options, const error_code& error) {
  const std::string start =
      "cannot listen for HTTP on " + options.bind + " port " + std::to_string(options.port) + ": ";
  if (error == asio::error::address_in_use)
    return fail(Errc::in_use,
                start + "the port is taken by another program; choose another with --http-port");
  if (error == asio::error::access_denied)
    return fail(Errc::io, start + "permission denied; choose a port of 1024 or above with --http-port");
  if (error.value() == EADDRNOTAVAIL)
    return fail(Errc::io, start + "this machine has no such address; correct --http-bind");
  return fail(Errc::io, start + error.message());
}

}  // namespace

Result<void> check_address(const std::string& bind) {
  error_code error;
  asio::ip::make_address(bind, error);
  return error ? Result<void>(fail(Errc::io, "http_bind is no address: " + bind)) : Result<void>();
}

class Server::Implementation {
 public:
  Implementation(Options options, std::vector<Route> routes)
      : options_(std::move(options)), routes_(std::move(routes)) {}

  Result<void> start() {
    if (auto checked = check_address(options_.bind); !checked) return checked;
    error_code error;
    listen({asio::ip::make_address(options_.bind), options_.port}, error);
    if (error) return cannot_listen(options_, error);
    port_ = acceptor_.local_endpoint(error).port();
    accept();
    // The first accept is under way before the thread runs: a context without work would end at once.
    thread_ = start_thread("http", [this] { context_.run(); });
    return {};
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      error_code none;
      acceptor_.close(none);
      pause_.cancel();
      // Then the context has nothing left to wait for, so run() returns and the thread ends.
      while (!shared_.connections.empty()) shared_.connections.front()->leave();
    });
    thread_.join();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void listen(const tcp::endpoint& at, error_code& error) {
    acceptor_.open(at.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(backlog, error);
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      try {
        admit(std::move(socket));
      } catch (const std::exception&) {
        // OpenSSL, or the library, had no memory for it. The socket is closed by now.
      }
      accept();
    });
  }

  // Descriptors may have run out, and accept() would fail at once again.
  void accept_later() {
    pause_.expires_after(accept_pause);
    pause_.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_.is_open()) accept();
    });
  }

  void admit(tcp::socket socket) {
    if (shared_.connections.size() >= connections_max) displace();
    if (options_.tls == nullptr) return begin<PlainStream>(PlainStream(std::move(socket)));
    const std::shared_ptr<const tls::Context> context = options_.tls->get();
    SEPAL_ASSERT(context != nullptr, "the port is open before there is a certificate");
    begin<TlsStream>(encrypted(std::move(socket), *context));
  }

  // leave() takes it off the list at once, also while an operation of it is under way.
  void displace() {
    std::vector<std::uint64_t> networks;
    for (const auto& connection : shared_.connections) networks.push_back(connection->network);
    const auto index = static_cast<std::ptrdiff_t>(displaced_index(networks, random_number()));
    (*std::next(shared_.connections.begin(), index))->leave();
  }

  template <class Stream>
  void begin(Stream stream) {
    auto connection = std::make_shared<ConnectionOver<Stream>>(std::move(stream), shared_);
    shared_.connections.push_back(connection);
    connection->begin(std::prev(shared_.connections.end()));
  }

  Options options_;
  std::vector<Route> routes_;
  asio::io_context context_{1};
  Shared shared_{.options = options_, .routes = routes_, .connections = {}};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer pause_{context_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

Server::Server(Options options, std::vector<Route> routes)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(routes))) {}
// It throws only if there is no memory for the message to the thread; then the process may end.
Server::~Server() {
  stop();
}

Result<void> Server::start() {
  return implementation_->start();
}

std::uint16_t Server::port() const {
  return implementation_->port();
}

void Server::stop() {
  implementation_->stop();
}

}  // namespace sepal::http
