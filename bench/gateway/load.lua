-- What every caller sends, and the one line in which wrk says what came of it. The path is that of the URL given to wrk.
wrk.method = "POST"
wrk.body = '{"model":"gpt-stub","temperature":0.2,"messages":[{"role":"system","content":"You are a helpful assistant that answers briefly."},{"role":"user","content":"Say hello to the world in one sentence, please."}]}'
wrk.headers["Content-Type"] = "application/json"
-- A real caller has a key; a gateway that tells accounts apart by it pays for that here as it would there.
wrk.headers["Authorization"] = "Bearer sk-bench-0123456789abcdef0123456789abcdef"

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'DONE {"requests":%d,"seconds":%.6f,"broken":%d,"not_2xx":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
