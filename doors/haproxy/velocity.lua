-- Asks velocityd's gate about a request, and leaves the answer in variables of the transaction: velocity_status, velocity_txn and
-- velocity_retry. The status is 503 or 504 where no answer came. The gate reads form and Authorization. It gets each line of a header,
-- and the end user's address, because it refuses what the application may read in two ways.
core.register_action("velocity_gate", { "http-req" }, function(txn, url, token)
  local given = txn.http:req_get_headers()
  local function lines(name)
    local list, found = {}, given[name] or {}
    for i = 0, #found do list[i + 1] = found[i] end -- HAProxy counts from 0
    return list
  end
  local answer = core.httpclient():post({
    url = url,
    timeout = 1000,
    body = txn.sf:req_body(),
    headers = {
      ["host"] = { "velocityd" },
      ["content-type"] = lines("content-type"),
      ["content-encoding"] = lines("content-encoding"),
      ["authorization"] = lines("authorization"),
      ["x-forwarded-uri"] = { txn.sf:url() },
      ["x-api-key"] = { token },
      ["x-request-id"] = { txn:get_var("txn.velocity_attempt") },
      ["x-forwarded-for"] = { txn.sf:src() },
    },
  })
  txn:set_var("txn.velocity_status", answer.status)
  local headers = answer.headers or {}
  for name, header in pairs({ velocity_txn = "x-velocity-txn-id", velocity_retry = "retry-after" }) do
    if headers[header] then txn:set_var("txn." .. name, headers[header][0]) end
  end
end, 2)
