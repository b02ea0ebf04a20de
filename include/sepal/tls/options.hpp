// What a server's TLS is made of: files, and rules about its clients.
#pragma once

#include <sepal/base/choice.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::tls {

// Whether clients show a certificate. One that is shown must be valid, also where it is optional.
enum class AuthClients : std::uint8_t { no, optional, yes };
// Which field of a client's certificate names its user.
enum class UserField : std::uint8_t { off, common_name };
enum class Protocols : std::uint8_t { both, tls_1_2, tls_1_3 };

struct Options {
  // Paths of files in the PEM format.
  std::string certificate_file{};  // the server's, and behind it those between it and the root
  std::string key_file{};          // of that certificate, without a passphrase
  std::string ca_file{};           // what certificates of clients are signed with; empty: none
  AuthClients auth_clients = AuthClients::no;
  UserField user_field = UserField::off;
  Protocols protocols = Protocols::both;
};

}  // namespace sepal::tls

template <>
inline constexpr std::array<std::string_view, 3> sepal::choice_names<sepal::tls::AuthClients>{
    "no", "optional", "yes"};
template <>
inline constexpr std::array<std::string_view, 2> sepal::choice_names<sepal::tls::UserField>{"off", "CN"};
template <>
inline constexpr std::array<std::string_view, 3> sepal::choice_names<sepal::tls::Protocols>{
    "TLSv1.2 TLSv1.3", "TLSv1.2", "TLSv1.3"};
