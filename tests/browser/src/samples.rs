//! Files to send: small, real, and hostile ones.

/// A picture of 2 × 2 pixels.
pub const PNG: [u8; 73] = [
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 2, 8, 2, 0, 0, 0, 253, 212, 154,
    115, 0, 0, 0, 16, 73, 68, 65, 84, 120, 156, 99, 56, 17, 37, 7, 68, 12, 16, 10, 0, 37, 182, 5, 1, 136, 227, 44, 122,
    0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

/// A drawing that would act if it were shown as a page.
pub const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\" onload=\"acted()\">\
    <script>function acted(){localStorage.setItem('acted','svg')} acted()</script><rect width=\"9\" height=\"9\"/></svg>";

/// A page that would act if it were opened here.
pub const HTML: &str = "<!doctype html><title>acted</title><script>localStorage.setItem('acted','html');\
    fetch('/api/conversations/stolen/messages',{method:'POST',headers:{'Content-Type':'application/json'},\
    body:JSON.stringify({key:'k',text:'stolen',uploads:[]})})</script><img src=x onerror=\"localStorage.setItem('acted','img')\">";

/// Bytes that no type is known of, the same for the same length.
#[must_use]
pub fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// A text of so many numbered lines, which takes a while to read aloud.
#[must_use]
pub fn long_text(lines: usize) -> String {
    (1..=lines)
        .map(|line| format!("line {line} of a text that takes its time to be read aloud, word by word\n"))
        .collect()
}
