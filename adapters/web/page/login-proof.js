// Keeps the proof of the login. A browser sends the cookie of a login to every port of its host, and so to other people's
// servers there; what is stored here only pages of this origin can read, and the server wants both.

const KEY = "satchel.login";

// Without storage, it lasts until the page is reloaded.
let own = null;

export function keepProof(proof) {
  own = proof;
  try {
    localStorage.setItem(KEY, proof);
  } catch {
    // Storage can be switched off.
  }
}

// Another tab may have logged in since.
function read() {
  try {
    return localStorage.getItem(KEY) ?? own;
  } catch {
    return own;
  }
}

// The headers that go along with each request.
export function proofHeaders() {
  const proof = read();
  return proof ? { "X-Satchel-Login": proof } : {};
}
