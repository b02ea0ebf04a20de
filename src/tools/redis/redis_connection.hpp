// A connection to a server that speaks the Redis protocol, on the library hiredis. Debian's hiredis speaks no
// TLS: with TLS it only writes requests and reads replies, in memory.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/tls/connection.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tools/redis/redis_address.hpp"

struct redisContext;
struct redisReply;

namespace sepal::tools {

// A reply, or one within a list. A view is valid as long as the RedisReply that it came from.
class ReplyView {
 public:
  explicit ReplyView(const redisReply* reply) : reply_(reply) {}

  [[nodiscard]] bool is_error() const;
  [[nodiscard]] bool is_null() const;
  // A string, and no line or error.
  [[nodiscard]] bool is_text() const;
  // The text of a string, a line or an error; empty for other replies.
  [[nodiscard]] std::string_view text() const;
  // The value of a number, or of a string that is a number; 0 for other replies.
  [[nodiscard]] std::int64_t number() const;
  [[nodiscard]] std::size_t size() const;  // of a list; else 0
  // Null where the list is not so long.
  [[nodiscard]] ReplyView operator[](std::size_t index) const;

 private:
  const redisReply* reply_;
};

class RedisReply {
 public:
  explicit RedisReply(redisReply* reply) : reply_(reply) {}
  [[nodiscard]] ReplyView view() const { return ReplyView(reply_.get()); }

 private:
  struct Free {
    void operator()(redisReply* reply) const;
  };
  std::unique_ptr<redisReply, Free> reply_;
};

// Confined. Blocks: for some seconds until the server has answered for the first time, and then each time for
// some minutes at most, since a server takes long to store a large filter. A signal that HeldSignals holds
// back ends the wait for an answer. Errors of all members: io, which name the server. An error reply of the
// server is a reply.
class RedisConnection {
 public:
  // An empty password: none is sent. `tls` is for addresses with TLS. Errors: also where the server refuses
  // the password.
  static Result<std::unique_ptr<RedisConnection>> open(const RedisAddress& address,
                                                       const std::string& password,
                                                       const tls::Context* tls = nullptr);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Puts a request behind those that are not sent yet. receive() sends them.
  void add(std::initializer_list<std::string_view> words) { add(std::span(words.begin(), words.size())); }
  void add(std::span<const std::string_view> words);
  Result<void> flush();
  // Sends a request at once, without a copy of its words. Requests that were added go before it.
  Result<void> send(std::initializer_list<std::string_view> words);
  // The reply to the oldest request that has none.
  Result<RedisReply> receive();
  Result<RedisReply> ask(std::initializer_list<std::string_view> words);

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  RedisConnection(redisContext* context, std::string name);
  [[nodiscard]] Error problem() const;
  // The same where connect() has failed.
  [[nodiscard]] Error unconnected() const;
  // `more`: other bytes follow at once.
  Result<void> write_all(std::string_view bytes, bool more);
  Result<void> shake_hands(const tls::Context& context, const std::string& host);
  Result<void> write_encrypted(std::string_view bytes);
  Result<void> read_encrypted();
  Result<void> read_plain();
  Result<void> await_bytes();
  [[nodiscard]] Error tls_problem(tls::Connection::Status status) const;
  [[nodiscard]] std::string certificate_advice() const;

  struct Close {
    void operator()(redisContext* context) const;
  };
  std::unique_ptr<redisContext, Close> context_;
  std::unique_ptr<tls::Connection> tls_;  // null: no TLS. It uses the descriptor of context_
  std::string unsent_;                    // requests, with TLS; without, context_ has them
  std::string name_;
  // A server that speaks TLS ends a connection without TLS, or answers with bytes that are no reply.
  bool may_need_tls_ = false;
  bool is_answered_ = false;  // a reply has come
};

// An error about a login says what to do: the server's own words do not say where this program looks for a
// password. `variable` is that of the environment, `address` what the user knows the server's address by.
[[nodiscard]] Error with_login_advice(const Error& error, std::string_view variable,
                                      std::string_view address);

// A reply that is no error. Errors: io, also where the server answers an error.
Result<RedisReply> answer_of(RedisConnection& server, std::initializer_list<std::string_view> words);

}  // namespace sepal::tools
