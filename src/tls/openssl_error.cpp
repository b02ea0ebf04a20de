#include "tls/openssl_error.hpp"

#include <openssl/err.h>
#include <system_error>

namespace sepal::tls {

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

}  // namespace sepal::tls
