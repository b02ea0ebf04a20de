// Asks the server, and tells what goes wrong.

export const at = (id) => document.getElementById(id);

export async function ask(path) {
  const reply = await fetch(path, { cache: "no-store", credentials: "omit" });
  const answer = await reply.json();
  if (!reply.ok) throw Object.assign(new Error(answer.error), { status: reply.status });
  return answer;
}

function tell(message) {
  at("trouble").hidden = message === "";
  if (at("trouble").textContent !== message) at("trouble").textContent = message;
}

export async function attempt(task) {
  try {
    await task();
    tell("");
  } catch (error) {
    tell(error instanceof TypeError ? "The server does not answer. The figures below are the last ones." : `The server answers: ${error.message}`);
  }
}
