#include "tools/redis/redis_connection.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>

#include <hiredis/hiredis.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>
#include <vector>

#include "tools/shell/held_signals.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::chrono::seconds connect_time_max{10};  // also of the TLS handshake
// A server that is loading answers at once. So what answers nothing is no Redis server, or one that is
// paused, and the user should hear of it.
constexpr std::chrono::seconds first_answer_time_max{10};
constexpr std::chrono::seconds answer_time_max{600};
// So soon a signal that HeldSignals holds back ends the wait.
constexpr std::chrono::milliseconds signal_look_period{100};

timeval interval(std::chrono::seconds time) {
  return {.tv_sec = time.count(), .tv_usec = 0};
}

std::string within(std::chrono::seconds time) {
  return "within " + std::to_string(time.count()) + " seconds";
}

}  // namespace

bool ReplyView::is_error() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR;
}

bool ReplyView::is_null() const {
  return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL;
}

bool ReplyView::is_text() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_STRING;
}

std::string_view ReplyView::text() const {
  if (reply_ == nullptr || reply_->str == nullptr) return {};
  return {reply_->str, reply_->len};
}

std::int64_t ReplyView::number() const {
  if (reply_ == nullptr) return 0;
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  return parse_whole<std::int64_t>(text()).value_or(0);
}

std::size_t ReplyView::size() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0;
}

ReplyView ReplyView::operator[](std::size_t index) const {
  return ReplyView(index < size() ? reply_->element[index] : nullptr);
}

void RedisReply::Free::operator()(redisReply* reply) const {
  freeReplyObject(reply);
}

void RedisConnection::Close::operator()(redisContext* context) const {
  redisFree(context);
}

RedisConnection::RedisConnection(redisContext* context, std::string name)
    : context_(context), name_(std::move(name)) {}
RedisConnection::~RedisConnection() = default;

Error RedisConnection::problem() const {
  const bool ended = context_->err == REDIS_ERR_EOF || context_->err == REDIS_ERR_PROTOCOL ||
                     (context_->err == REDIS_ERR_IO && errno == ECONNRESET);
  return fail(Errc::io,
              name_ + ": " + context_->errstr +
                  (may_need_tls_ && !is_answered_ && ended ? " (if it speaks TLS: rediss://)" : ""));
}

Error RedisConnection::unconnected() const {
  const std::string_view reason = context_->errstr;
  const bool is_nowhere = reason == reason_text(ECONNREFUSED) || reason == reason_text(ENOENT);
  const Error error = problem();
  if (reason == reason_text(EACCES))
    return fail(error.code, error.detail +
                                "; run sepal as root or as the user of the server, or let this user use the "
                                "socket (unixsocket_mode)");
  return is_nowhere
             ? fail(error.code, error.detail + "; no server listens there: start it, or correct the address")
             : error;
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const RedisAddress& address,
                                                               const std::string& password,
                                                               const tls::Context* tls) {
  // hiredis writes with write(): a server that has closed the connection is to be an error that names it, and
  // not a signal that ends the program without a word.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  redisContext* const context =
      address.host.empty()
          ? redisConnectUnixWithTimeout(address.path.c_str(), interval(connect_time_max))
          : redisConnectWithTimeout(address.host.c_str(), address.port, interval(connect_time_max));
  if (context == nullptr) return fail(Errc::out_of_memory, "there is no memory for a connection");
  std::unique_ptr<RedisConnection> connection(new RedisConnection(context, address.text()));
  if (context->err != 0) return connection->unconnected();
  // The timeouts belong to the socket. So they hold for TLS as well, which uses the same descriptor.
  if (redisSetTimeout(context, interval(connect_time_max)) != REDIS_OK) return connection->problem();
  // Only a guess is possible: hiredis sees an end or strange bytes if the port speaks TLS. problem() then
  // adds the hint.
  connection->may_need_tls_ = !address.tls && !address.host.empty();
  if (address.tls) {
    SEPAL_ASSERT(tls != nullptr, "TLS without certificates");
    if (auto done = connection->shake_hands(*tls, address.host); !done) return done.error();
  }
  if (redisSetTimeout(context, interval(answer_time_max)) != REDIS_OK) return connection->problem();
  // The handshake is done before, so with TLS the password is sent encrypted.
  if (password.empty()) return connection;
  auto welcome = address.user.empty() ? connection->ask({"AUTH", password})
                                      : connection->ask({"AUTH", address.user, password});
  if (!welcome) return welcome.error();
  if (welcome->view().is_error())
    return fail(Errc::io, connection->name() + ": " + std::string(welcome->view().text()));
  return connection;
}

void RedisConnection::add(std::span<const std::string_view> words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const std::string_view word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  if (tls_ != nullptr) {
    // hiredis would write to the socket itself, without TLS. So it only makes the bytes of the request.
    char* bytes = nullptr;
    const int size =
        redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), pointers.data(), lengths.data());
    if (size < 0) throw std::bad_alloc();
    unsent_.append(bytes, static_cast<std::size_t>(size));
    redisFreeCommand(bytes);
    return;
  }
  // If this fails, so does receive().
  static_cast<void>(redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), pointers.data(),
                                           lengths.data()));
}

// What to do about a certificate of the server that does not verify.
std::string RedisConnection::certificate_advice() const {
  if (tls_->failure() != tls::Failure::certificate) return "";
  if (tls_->reason().find("mismatch") != std::string::npos)
    return "; name the server by a name or address that is in its certificate";
  return "; name with --cacert the CA certificates that have signed the server's";
}

// The socket blocks, so a call that would have to wait has waited for as long as it may.
Error RedisConnection::tls_problem(tls::Connection::Status status) const {
  using Status = tls::Connection::Status;
  if (status == Status::wants_read || status == Status::wants_write)
    return fail(Errc::io, name_ + ": " + reason_text(EAGAIN));
  if (status == Status::ended) return fail(Errc::io, name_ + ": Server closed the connection");
  return fail(Errc::io, name_ + ": TLS: " + tls_->reason() + certificate_advice());
}

Result<void> RedisConnection::shake_hands(const tls::Context& context, const std::string& host) {
  tls_ = std::make_unique<tls::Connection>(context, context_->fd, host);
  using Status = tls::Connection::Status;
  const Status status = tls_->handshake();
  if (status == Status::wants_read || status == Status::wants_write)
    return fail(Errc::io, name_ + ": no answer to the TLS handshake " + within(connect_time_max) +
                              ": the port may speak no TLS (redis://)");
  return status == Status::done ? Result<void>() : tls_problem(status);
}

Result<void> RedisConnection::write_encrypted(std::string_view bytes) {
  while (!bytes.empty()) {
    const tls::Connection::Transfer sent = tls_->send(bytes);
    if (sent.status != tls::Connection::Status::done) return tls_problem(sent.status);
    bytes.remove_prefix(sent.byte_count);
  }
  return {};
}

// Returns when the server has sent something, or has closed the connection.
Result<void> RedisConnection::await_bytes() {
  const auto time_max = is_answered_ ? answer_time_max : first_answer_time_max;
  const auto end = std::chrono::steady_clock::now() + time_max;
  pollfd socket{.fd = context_->fd, .events = POLLIN, .revents = 0};
  for (;;) {
    const int ready = ::poll(&socket, 1, static_cast<int>(signal_look_period.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(Errc::io, name_ + ": " + reason_text(errno));
    if (HeldSignals::asked_to_end())
      return fail(Errc::io, name_ + ": a signal has ended the wait for an answer");
    if (std::chrono::steady_clock::now() < end) continue;
    return fail(Errc::io, name_ + ": no answer " + within(time_max) +
                              (is_answered_ ? "" : ": it is no Redis server, or one that is paused or busy"));
  }
}

Result<void> RedisConnection::read_encrypted() {
  if (!tls_->holds_bytes())
    if (auto done = await_bytes(); !done) return done;
  std::array<char, 16384> piece;
  const tls::Connection::Transfer received = tls_->receive(piece);
  if (received.status != tls::Connection::Status::done) return tls_problem(received.status);
  return redisReaderFeed(context_->reader, piece.data(), received.byte_count) == REDIS_OK ? Result<void>()
                                                                                          : problem();
}

Result<void> RedisConnection::read_plain() {
  if (auto done = await_bytes(); !done) return done;
  return redisBufferRead(context_.get()) == REDIS_OK ? Result<void>() : problem();
}

Result<void> RedisConnection::flush() {
  if (tls_ != nullptr) return write_encrypted(std::exchange(unsent_, {}));
  int done = 0;
  // A call writes once, and the kernel may take only a part.
  while (done == 0)
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) return problem();
  return {};
}

Result<void> RedisConnection::write_all(std::string_view bytes, bool more) {
  if (tls_ != nullptr) return write_encrypted(bytes);
  // MSG_MORE lets the kernel join the short heads of words with the bytes behind them. With MSG_NOSIGNAL, a
  // connection that has ended is an error, and no SIGPIPE that ends the program.
  while (!bytes.empty()) {
    const ssize_t count =
        ::send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(Errc::io, name_ + ": " + reason_text(errno));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

// Writes the request word by word, because redisAppendCommandArgv() would copy the bytes of a piece. `head`
// ends the word before and begins the next one.
Result<void> RedisConnection::send(std::initializer_list<std::string_view> words) {
  if (auto done = flush(); !done) return done;
  std::string head = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    head += "$" + std::to_string(word.size()) + "\r\n";
    if (auto done = write_all(head, true); !done) return done;
    if (auto done = write_all(word, true); !done) return done;
    head = "\r\n";
  }
  return write_all(head, false);
}

Result<RedisReply> RedisConnection::receive() {
  if (auto done = flush(); !done) return done.error();
  void* reply = nullptr;
  // No reply and no error: the reader has not got a whole reply yet. redisGetReply() would wait in a way that
  // no signal ends.
  while (redisGetReplyFromReader(context_.get(), &reply) == REDIS_OK && reply == nullptr)
    if (auto done = tls_ != nullptr ? read_encrypted() : read_plain(); !done) return done.error();
  if (reply == nullptr) return problem();
  // Later errors need no hint to TLS.
  is_answered_ = true;
  return RedisReply(static_cast<redisReply*>(reply));
}

Error with_login_advice(const Error& error, std::string_view variable, std::string_view address) {
  const auto advised = [&](const std::string& advice) {
    // The words of a server may end with a point.
    const std::string_view told = error.detail;
    return fail(error.code, std::string(told.substr(0, told.find_last_not_of('.') + 1)) + "; " + advice);
  };
  const std::string name(variable);
  const std::string place(address);
  if (error.detail.find("NOAUTH") != std::string::npos)
    return advised("set " + name + "; if it is not that of the user default, name the user in " + place +
                   ": USER@HOST");
  if (error.detail.find("WRONGPASS") != std::string::npos)
    return advised("correct " + name + ", or the user in " + place);
  return error;
}

Result<RedisReply> answer_of(RedisConnection& server, std::initializer_list<std::string_view> words) {
  auto reply = server.ask(words);
  if (reply && reply->view().is_error())
    return fail(Errc::io, server.name() + ": " + std::string(*words.begin()) +
                              " was answered: " + std::string(reply->view().text()));
  return reply;
}

Result<RedisReply> RedisConnection::ask(std::initializer_list<std::string_view> words) {
  add(words);
  return receive();
}

}  // namespace sepal::tools
