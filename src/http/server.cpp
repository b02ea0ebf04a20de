// One thread runs everything here: the acceptor and all connections. So nothing has a lock.
//
// A connection waits until a client has sent something (`idle_max`). From then on the request has to be there
// within `request_time_max`, however slowly its bytes come, and the answer has to be read within
// `answer_time_max`. The connections are in a list in the order of their last such step. A new connection
// beyond the bound closes the first of the list, which has been waiting longest.
#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>
#include <sepal/http/server.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <algorithm>
#include <chrono>
#include <list>
#include <openssl/ssl.h>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "host.hpp"

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
// How long the acceptor waits when descriptors have run out.
constexpr std::chrono::milliseconds accept_pause{200};

Response text_response(unsigned status, std::string_view text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::string(text) + "\n")};
}

// The parser has found something wrong in the bytes. Other errors are about the socket.
bool is_about_bytes(error_code error) {
  return error && error.category() == wire::make_error_code(wire::error::bad_version).category() &&
         error != wire::error::end_of_stream && error != wire::error::partial_message;
}

// A connection, over TLS or not.
class Connection {
 public:
  virtual ~Connection() = default;
  // Ends the connection. The handler of an operation under way is still called; it finds out, and does
  // nothing.
  virtual void leave() = 0;
};
using Connections = std::list<std::shared_ptr<Connection>>;

// What all connections share.
struct Shared {
  const Options& options;
  const std::vector<Route>& routes;
  Connections connections;
};

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// Asio's context gives the reference back that it is made with. The stream takes one of its own.
TlsStream encrypted(tcp::socket socket, const tls::Context& context) {
  SSL_CTX_up_ref(context.native());
  asio::ssl::context lent(context.native());
  return {std::move(socket), lent};
}

template <class Stream>
class ConnectionOver final : public Connection, public std::enable_shared_from_this<ConnectionOver<Stream>> {
 public:
  ConnectionOver(Stream stream, Shared& shared) : stream_(std::move(stream)), shared_(shared) {
    error_code none;
    const auto end = socket().local_endpoint(none);
    if (!none) arrived_at_ = end.address().to_string();
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
    if (std::exchange(left_, true)) return;
    error_code none;
    socket().close(none);
    shared_.connections.erase(place_);
  }

 private:
  // Moves the connection to the end of the list.
  void stepped(std::chrono::seconds time_max) {
    shared_.connections.splice(shared_.connections.end(), shared_.connections, place_);
    beast::get_lowest_layer(stream_).expires_after(time_max);
  }

  // Until the client has sent something.
  void wait() {
    if (buffer_.size() > 0) return read();
    stepped(idle_max);
    // A read of the stream is under the stream's deadline; a wait of the socket is not.
    stream_.async_read_some(buffer_.prepare(request_bytes_max),
                            [self = this->shared_from_this()](error_code error, std::size_t count) {
                              if (error || self->left_) return self->leave();
                              self->buffer_.commit(count);
                              self->read();
                            });
  }

  void read() {
    stepped(request_time_max);
    parser_.emplace();
    parser_->header_limit(request_bytes_max);
    wire::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](error_code error, std::size_t byte_count) {
                              self->has_read(error, byte_count);
                            });
  }

  void has_read(error_code error, std::size_t byte_count) {
    if (left_) return;
    // The parser's own bound leaves out some bytes.
    if (byte_count > request_bytes_max || error == wire::error::header_limit ||
        error == wire::error::buffer_overflow)
      return refuse(text_response(431, "the request is too long"));
    if (is_about_bytes(error)) return refuse(text_response(400, "this is no HTTP request"));
    if (error) return leave();
    answer();
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
    if (request.count(wire::field::host) != 1 ||
        !names_this_server(view(request[wire::field::host]), arrived_at_, shared_.options.hosts))
      return refuse(text_response(421, "the Host header does not name this server; http_hosts allows names"));
    if (!is_head && request.method() != wire::verb::get)
      return refuse(text_response(405, "only GET and HEAD are answered"));
    write(answer_of(view(request.target()), view(request[wire::field::accept])), request.version(), is_head);
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
    body_ = std::move(response.body);
    SEPAL_ASSERT(body_ != nullptr, "an answer has a body");
    response_.emplace(static_cast<wire::status>(response.status), version);
    response_->set(wire::field::content_type, response.content_type);
    // For a browser: nothing of this is to be guessed at, kept or shown inside of another page.
    response_->set("X-Content-Type-Options", "nosniff");
    response_->set(wire::field::cache_control, "no-store");
    response_->set("X-Frame-Options", "DENY");
    response_->set("Referrer-Policy", "no-referrer");
    response_->set("Cross-Origin-Resource-Policy", "same-origin");
    response_->set("Content-Security-Policy", content_security_policy);
    if (response.status == 405) response_->set(wire::field::allow, "GET, HEAD");
    response_->content_length(body_->size());
    response_->keep_alive(keeps_);
    if (!is_head) response_->body() = {body_->data(), body_->size()};
    serializer_.emplace(*response_);
    serializer_->split(is_head);
    stepped(answer_time_max);
    auto done = [self = this->shared_from_this()](error_code error, std::size_t /*count*/) {
      self->has_written(error);
    };
    if (is_head) {
      wire::async_write_header(stream_, *serializer_, std::move(done));
    } else {
      wire::async_write(stream_, *serializer_, std::move(done));
    }
  }

  void has_written(error_code error) {
    serializer_.reset();
    response_.reset();
    body_.reset();
    if (error || left_) return leave();
    if (keeps_) return wait();
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stepped(request_time_max);
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
  beast::flat_static_buffer<2 * request_bytes_max> buffer_;
  std::optional<wire::request_parser<wire::empty_body>> parser_;
  std::shared_ptr<const std::string> body_;
  std::optional<wire::response<wire::span_body<const char>>> response_;
  std::optional<wire::response_serializer<wire::span_body<const char>>> serializer_;
  bool keeps_ = false;
  bool left_ = false;
};

}  // namespace

class Server::Implementation {
 public:
  Implementation(Options options, std::vector<Route> routes)
      : options_(std::move(options)), routes_(std::move(routes)) {}

  Result<void> start() {
    error_code error;
    const auto address = asio::ip::make_address(options_.bind, error);
    if (error) return fail(Errc::io, "http_bind is no address: " + options_.bind);
    listen({address, options_.port}, error);
    if (error)
      return fail(error == boost::system::errc::address_in_use ? Errc::in_use : Errc::io,
                  "cannot listen for HTTP on " + options_.bind + " port " + std::to_string(options_.port) +
                      ": " + error.message());
    port_ = acceptor_.local_endpoint(error).port();
    accept();
    thread_ = std::thread([this] {
      name_this_thread("http");
      context_.run();
    });
    return {};
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      error_code none;
      acceptor_.close(none);
      pause_.cancel();
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
    if (!error) acceptor_.listen(connections_max, error);
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      admit(std::move(socket));
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
    Connections& connections = shared_.connections;
    if (connections.size() >= connections_max) connections.front()->leave();
    if (options_.tls == nullptr) return begin<PlainStream>(PlainStream(std::move(socket)));
    const std::shared_ptr<const tls::Context> context = options_.tls->get();
    SEPAL_ASSERT(context != nullptr, "the port is open before there is a certificate");
    begin<TlsStream>(encrypted(std::move(socket), *context));
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
// NOLINTNEXTLINE(bugprone-exception-escape)
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
