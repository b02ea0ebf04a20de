#include "tools/redis/redis_connection.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>

#include <hiredis/hiredis.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <new>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>
#include <vector>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr timeval connect_time_max{.tv_sec = 10, .tv_usec = 0};
constexpr timeval answer_time_max{.tv_sec = 600, .tv_usec = 0};

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
  return fail(Errc::io, name_ + ": " + context_->errstr +
                            (may_need_tls_ && ended ? " (if it speaks TLS: rediss://)" : ""));
}

Error RedisConnection::unconnected() const {
  const std::string_view reason = context_->errstr;
  const bool is_nowhere = reason == reason_text(ECONNREFUSED) || reason == reason_text(ENOENT);
  const Error error = problem();
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
      address.host.empty() ? redisConnectUnixWithTimeout(address.path.c_str(), connect_time_max)
                           : redisConnectWithTimeout(address.host.c_str(), address.port, connect_time_max);
  if (context == nullptr) return fail(Errc::out_of_memory, "there is no memory for a connection");
  std::unique_ptr<RedisConnection> connection(new RedisConnection(context, address.text()));
  if (context->err != 0) return connection->unconnected();
  // The timeouts belong to the socket. So they hold for TLS as well, which uses the same descriptor.
  if (redisSetTimeout(context, answer_time_max) != REDIS_OK) return connection->problem();
  // Only a guess is possible: hiredis sees an end or strange bytes if the port speaks TLS. problem() then
  // adds the hint.
  connection->may_need_tls_ = !address.tls && !address.host.empty();
  if (address.tls) {
    SEPAL_ASSERT(tls != nullptr, "TLS without certificates");
    if (auto done = connection->shake_hands(*tls, address.host); !done) return done.error();
  }
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
  const tls::Connection::Status status = tls_->handshake();
  return status == tls::Connection::Status::done ? Result<void>() : tls_problem(status);
}

Result<void> RedisConnection::write_encrypted(std::string_view bytes) {
  while (!bytes.empty()) {
    const tls::Connection::Transfer sent = tls_->send(bytes);
    if (sent.status != tls::Connection::Status::done) return tls_problem(sent.status);
    bytes.remove_prefix(sent.byte_count);
  }
  return {};
}

Result<void> RedisConnection::read_encrypted() {
  std::array<char, 16384> piece;
  const tls::Connection::Transfer received = tls_->receive(piece);
  if (received.status != tls::Connection::Status::done) return tls_problem(received.status);
  return redisReaderFeed(context_->reader, piece.data(), received.byte_count) == REDIS_OK ? Result<void>()
                                                                                          : problem();
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
  void* reply = nullptr;
  if (tls_ != nullptr) {
    // redisGetReply() of the other way sends what was added. Here flush() does.
    if (auto done = flush(); !done) return done.error();
    // No reply and no error: the reader has not got a whole reply yet.
    while (redisGetReplyFromReader(context_.get(), &reply) == REDIS_OK && reply == nullptr)
      if (auto done = read_encrypted(); !done) return done.error();
    if (reply == nullptr) return problem();
    return RedisReply(static_cast<redisReply*>(reply));
  }
  if (redisGetReply(context_.get(), &reply) != REDIS_OK) return problem();
  // A reply came, so the port speaks no TLS, and later errors need no hint.
  may_need_tls_ = false;
  return RedisReply(static_cast<redisReply*>(reply));
}

Error with_login_advice(const Error& error, std::string_view variable, std::string_view address) {
  const auto advised = [&](const std::string& advice) {
    return fail(error.code, error.detail + "; " + advice);
  };
  const std::string name(variable);
  const std::string place(address);
  if (error.detail.find("NOAUTH") != std::string::npos)
    return advised("set " + name + ", and name the user in " + place + ": USER@HOST");
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
