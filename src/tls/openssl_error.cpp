#include "tls/openssl_error.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <system_error>

namespace sepal::tls {
namespace {

// OpenSSL's texts for a file without the wanted part name its own steps: "no start line", "unsupported".
bool lacks_part(unsigned long error) {
  const int library = ERR_GET_LIB(error);
  const int reason = ERR_GET_REASON(error);
  return (library == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE) ||
         (library == ERR_LIB_X509 && reason == X509_R_NO_CERTIFICATE_OR_CRL_FOUND) ||
         (library == ERR_LIB_OSSL_DECODER && reason == ERR_R_UNSUPPORTED);
}

}  // namespace

// The oldest error is the cause; the later ones say which call failed because of it.
std::string take_reason() {
  const unsigned long error = ERR_peek_error();
  ERR_clear_error();
  if (error == 0) return "no reason is known";
  // An error of the system has the number of errno in the place of a reason.
  if (ERR_SYSTEM_ERROR(error)) return std::generic_category().message(ERR_GET_REASON(error));
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : "error " + std::to_string(ERR_GET_REASON(error));
}

std::string take_reason_without(std::string_view part) {
  const bool lacks = lacks_part(ERR_peek_error());
  std::string reason = take_reason();
  return lacks ? "it has no " + std::string(part) : reason;
}

}  // namespace sepal::tls
