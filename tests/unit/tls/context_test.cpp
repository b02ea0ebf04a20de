#include <sepal/tls/context.hpp>

#include <ctime>
#include <iomanip>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sstream>

#include "support/catch.hpp"
#include "unit/tls/tls_world.hpp"

namespace sepal::tls::context_test {
namespace {

using namespace test;

std::string error_of(const Options& options) {
  const auto context = Context::load(options);
  REQUIRE_FALSE(context.ok());
  CHECK(context.error().code == Errc::invalid_setting);
  return context.error().detail;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST_CASE("a context tells its certificate") {
  const Files files;
  const Certificate certificate = loaded(Context::load(files.options()))->certificate();
  CHECK(certificate.subject == "CN = localhost");
  CHECK_FALSE(certificate.serial.empty());
  // Its texts, and the same as numbers.
  const auto number_of = [](const std::string& text) {
    std::tm parts{};
    std::istringstream(text) >> std::get_time(&parts, "%Y-%m-%dT%H:%M:%SZ");
    return timegm(&parts);
  };
  CHECK(certificate.starts_at == number_of(certificate.not_before));
  CHECK(certificate.ends_at == number_of(certificate.not_after));
  CHECK(certificate.starts_at < certificate.ends_at);
}

TEST_CASE("a certificate that has expired is read") {
  const Files files;
  const test::TestCertificate old(files.path("old"), {.valid_seconds = -60}, &files.ca);
  Options options = files.options();
  options.certificate_file = old.certificate_file;
  options.key_file = old.key_file;
  CHECK(loaded(Context::load(options))->certificate().ends_at < std::time(nullptr));
}

TEST_CASE("options that do not fit together are refused without a look at the files") {
  CHECK(Context::check({}).error().detail ==
        "TLS needs a certificate: set tls_cert_file and tls_key_file (--tls-cert-file, --tls-key-file)");
  CHECK(Context::check({.certificate_file = "a"}).error().detail ==
        "TLS needs a key: set tls_key_file (--tls-key-file)");
  for (const AuthClients auth : {AuthClients::optional, AuthClients::yes})
    CHECK(Context::check({.certificate_file = "a", .key_file = "b", .auth_clients = auth}).error().detail ==
          "to check the certificates of clients (tls_auth_clients), set tls_ca_cert_file");
  CHECK(Context::check({.certificate_file = "a", .key_file = "b"}).ok());
  Options by_name{.certificate_file = "a", .key_file = "b", .ca_file = "c"};
  by_name.user_field = UserField::common_name;
  CHECK(Context::check(by_name).error().detail ==
        "without certificates of clients, tls_auth_clients_user logs no client in: set tls_auth_clients to "
        "yes or "
        "optional");
  for (const AuthClients auth : {AuthClients::optional, AuthClients::yes}) {
    by_name.auth_clients = auth;
    CHECK(Context::check(by_name).ok());
  }
}

TEST_CASE("the error about a file names the file and the reason") {
  const Files files;
  Options options = files.options();

  options.certificate_file = files.path("none");
  CHECK(error_of(options) ==
        files.path("none") + ": the certificate cannot be read: No such file or directory");
  options.certificate_file = files.folder;
  CHECK(error_of(options) == files.folder + ": the certificate cannot be read: it is no file");
  write(files.path("text"), "no certificate\n");
  options.certificate_file = files.path("text");
  CHECK(error_of(options) ==
        files.path("text") + ": the certificate cannot be read: it has no PEM certificate");

  options = files.options();
  options.key_file = files.path("none");
  CHECK(error_of(options) == files.path("none") + ": the key cannot be read: No such file or directory");
  options.key_file = files.path("text");
  CHECK(
      error_of(options).starts_with(files.path("text") + ": the key cannot be read, or has a passphrase: "));
  options.key_file = files.alice.key_file;
  CHECK(error_of(options) == files.alice.key_file + ": the key does not fit the certificate " +
                                 files.server.certificate_file + ": key values mismatch");

  options = files.options(AuthClients::yes);
  options.ca_file = files.path("none");
  CHECK(error_of(options) ==
        files.path("none") + ": the CA certificate cannot be read: No such file or directory");
  options.ca_file = files.path("text");
  CHECK(error_of(options).starts_with(files.path("text") + ": the CA certificate cannot be read: "));
}

TEST_CASE("a key of another kind than the certificate's is refused") {
  const Files files;
  Options options = files.options();
  EVP_PKEY* const key = EVP_RSA_gen(2048);
  std::FILE* const file = std::fopen(files.path("rsa").c_str(), "w");
  REQUIRE(PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  std::fclose(file);
  EVP_PKEY_free(key);
  options.key_file = files.path("rsa");
  CHECK(error_of(options).starts_with(files.path("rsa") + ": the key does not fit the certificate "));
}

TEST_CASE("a file has a largest length") {
  const Files files;
  Options options = files.options();
  options.ca_file = files.path("long");
  std::filesystem::copy(files.ca.certificate_file, options.ca_file);
  std::filesystem::resize_file(options.ca_file, file_bytes_max);
  CHECK(Context::load(options).ok());
  std::filesystem::resize_file(options.ca_file, file_bytes_max + 1);
  CHECK(error_of(options) ==
        files.path("long") + ": the CA certificate cannot be read: it is longer than 4194304 bytes");
}

TEST_CASE("a key with a passphrase is refused, and no prompt asks for the passphrase") {
  const Files files;
  Options options = files.options();
  std::FILE* const plain = std::fopen(files.server.key_file.c_str(), "r");
  EVP_PKEY* const key = PEM_read_PrivateKey(plain, nullptr, nullptr, nullptr);
  std::fclose(plain);
  std::FILE* const locked = std::fopen(files.path("locked").c_str(), "w");
  std::string secret = "sesame";
  REQUIRE(PEM_write_PrivateKey(locked, key, EVP_aes_256_cbc(),
                               reinterpret_cast<unsigned char*>(secret.data()),
                               static_cast<int>(secret.size()), nullptr, nullptr) == 1);
  std::fclose(locked);
  EVP_PKEY_free(key);
  options.key_file = files.path("locked");
  CHECK(error_of(options).starts_with(files.path("locked") +
                                      ": the key cannot be read, or has a passphrase: "));
}

}  // namespace
}  // namespace sepal::tls::context_test
