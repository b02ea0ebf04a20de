// Certificates and keys for tests, as files.
#pragma once

#include <cstdio>
#include <memory>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string>

#include "support/catch.hpp"

namespace sepal::test {

// A certificate and its key. `signer` signs it; without one it signs itself, and is a CA.
class TestCertificate {
 public:
  struct Wanted {
    std::string common_name = "localhost";
    long valid_seconds = 3600;  // below 0: it is not valid any more
  };

  TestCertificate(const std::string& path, const Wanted& wanted, const TestCertificate* signer = nullptr)
      : certificate_file(path + ".crt"),
        key_file(path + ".key"),
        key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
        certificate_(X509_new(), X509_free) {
    REQUIRE((key_ != nullptr && certificate_ != nullptr));
    X509* const made = certificate_.get();
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1 + static_cast<long>(path.size()));
    X509_gmtime_adj(X509_getm_notBefore(made), -7200);
    X509_gmtime_adj(X509_getm_notAfter(made), wanted.valid_seconds);
    X509_set_pubkey(made, key_.get());
    name(X509_get_subject_name(made), wanted.common_name);
    X509_set_issuer_name(made, X509_get_subject_name(signer == nullptr ? made : signer->certificate_.get()));
    extend(NID_basic_constraints, signer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    if (signer != nullptr) extend(NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    REQUIRE(X509_sign(made, signer == nullptr ? key_.get() : signer->key_.get(), EVP_sha256()) > 0);
    write();
  }

  const std::string certificate_file;
  const std::string key_file;

 private:
  static void name(X509_NAME* to, const std::string& common_name) {
    X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(common_name.data()),
                               static_cast<int>(common_name.size()), -1, 0);
  }
  void extend(int kind, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
    REQUIRE(extension != nullptr);
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  void write() const {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> one(std::fopen(certificate_file.c_str(), "w"),
                                                              std::fclose);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> other(std::fopen(key_file.c_str(), "w"),
                                                                std::fclose);
    REQUIRE((one != nullptr && other != nullptr));
    REQUIRE(PEM_write_X509(one.get(), certificate_.get()) == 1);
    REQUIRE(PEM_write_PrivateKey(other.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  }

  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> certificate_;
};

}  // namespace sepal::test
