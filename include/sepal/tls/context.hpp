// The certificates, keys and rules that new TLS connections are made with.
//
// A context never changes. To read the files anew is to make another one, and to hand it to Current.
// Connections keep what they were made with.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/tls/options.hpp>

#include <cstdint>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace sepal::tls {

// The length of each file that is read.
inline constexpr std::uint64_t file_bytes_max = std::uint64_t{4} << 20;

// What an operator wants to know of the server's certificate.
struct Certificate {
  std::string subject;     // "CN = example.org"
  std::string serial;      // hex digits
  std::string not_before;  // RFC 3339: "2026-11-25T03:00:00Z"
  std::string not_after;   // likewise
  // The same, in seconds since 1970; 0 if it is no time.
  std::int64_t starts_at = 0;
  std::int64_t ends_at = 0;
};

// Immutable.
class Context {
 public:
  // Whether the options fit together; reads no file. Errors: invalid_setting, with a sentence.
  static Result<void> check(const Options& options);

  // For servers. Reads the files of `options`; blocks. Errors: invalid_setting, with a sentence that names
  // the setting or the file, and OpenSSL's reason.
  static Result<std::shared_ptr<const Context>> load(const Options& options);

  struct ClientOptions {
    std::string ca_file{};  // what the server's certificate is signed with; empty: the system's roots
    std::string certificate_file{};  // the client's own; empty: none
    std::string key_file{};
    bool verifies = true;  // whether the server's certificate must be valid and name the server
  };
  // For clients. Errors: as load().
  static Result<std::shared_ptr<const Context>> load_for_client(const ClientOptions& options);

  // OpenSSL's object; valid as long as the context.
  [[nodiscard]] ssl_ctx_st* native() const { return native_.get(); }
  [[nodiscard]] UserField user_field() const { return user_field_; }
  // The server's own.
  [[nodiscard]] const Certificate& certificate() const { return certificate_; }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  explicit Context(ssl_ctx_st* native) : native_(native) {}
  Result<void> read_files(const Options& options);

  std::unique_ptr<ssl_ctx_st, Free> native_;
  UserField user_field_ = UserField::off;
  Certificate certificate_;
};

// The context of new connections. Synchronised.
class Current {
 public:
  // Null until the first set().
  [[nodiscard]] std::shared_ptr<const Context> get() const {
    const MutexLock lock(mutex_);
    return context_;
  }
  void set(std::shared_ptr<const Context> context) {
    const MutexLock lock(mutex_);
    context_.swap(context);
  }

 private:
  mutable Mutex mutex_;  // Lock order: the innermost.
  std::shared_ptr<const Context> context_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::tls
