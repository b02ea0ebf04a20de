// What users mean for clients that are connected.
#pragma once

#include <sepal/command/users/users.hpp>

namespace sepal::command {

struct ClientState;
class ClientDirectory;

// Makes the client one that has just connected.
void welcome(const Users& users, ClientState& client);

// Takes removed users away from their clients, and closes these. Called with the gate closed. Returns whether
// `asking`, which is not closed, is one of them.
bool dismiss(const RemovedUsers& removed, ClientDirectory& clients, const ClientState* asking);

}  // namespace sepal::command
